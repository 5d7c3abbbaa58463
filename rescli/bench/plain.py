"""A block with its skips taken out, to see what they cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from rescli.threads.copies import copy_module
from torchresidual import Apply, Record

if TYPE_CHECKING:
    from collections.abc import Iterator


class NothingToTakeOutError(RuntimeError):
    """A block has neither Record nor Apply."""


def without_skips(block: nn.Module) -> nn.Module:
    """Copy a block and take out every Record and Apply, with what the Applies bring along.

    Projections, gates, alphas and scales belong to an Apply and go with it. Everything else stays what it is and
    keeps its name, the containers included.

    Args:
        block: Any module; it stays as it is.

    Returns:
        The copy. Whether it can be run is not known: behind a concat, for instance, layers want the size of both.

    Raises:
        NothingToTakeOutError: There is no Record and no Apply.

    Example:
        >>> from torchresidual import ResidualSequential
        >>> without_skips(ResidualSequential(Record(), nn.Linear(4, 4), Apply()))
        ResidualSequential(
          (1): Linear(in_features=4, out_features=4, bias=True)
        )
    """
    if isinstance(block, (Record, Apply)):
        return nn.Identity()
    plain = copy_module(block)
    places = list(_skips(plain))
    if not places:
        raise NothingToTakeOutError("the block has neither Record nor Apply, so there is nothing to take out")
    for parent, name in places:
        if isinstance(parent, nn.Sequential):
            delattr(parent, name)
        else:  # code calls it by this name
            setattr(parent, name, nn.Identity())
    return plain


def _skips(module: nn.Module) -> Iterator[tuple[nn.Module, str]]:
    """Find where Records and Applies stand, each place once; what is inside an Apply goes with it."""
    seen: set[int] = set()
    waiting = [module]
    while waiting:
        parent = waiting.pop()
        if id(parent) in seen:
            continue
        seen.add(id(parent))
        for name, child in parent._modules.items():  # noqa: SLF001 - named_children() leaves out what stands twice
            if isinstance(child, (Record, Apply)):
                yield parent, name
            elif child is not None:
                waiting.append(child)
