"""Which layers write into their input, and what to do about it.

``Record, ReLU(inplace=True), Apply`` would change the recorded tensor. A torch.nn layer known to write gets a copy
of its input instead, but only while that input shares memory with a recorded tensor that is still needed. A
layer of the user's own is watched by the version counter that autograd keeps on each tensor.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from torch import nn

from torchresidual.record import Record
from torchresidual.wrappers import RecurrentWrapper

if TYPE_CHECKING:
    from collections.abc import Iterator


class Writes(IntEnum):
    """What a layer does to its input's memory."""

    NEVER = 0
    IN_PLACE = 1
    UNKNOWN = 2


# Layers that return their input, or a view of it: what comes after them may still write into it. A dropout does in
# eval mode, a shuffle where its factor is 1.
_PASS_THROUGH: tuple[type[nn.Module], ...] = (
    Record,
    *(nn.Identity, nn.Flatten, nn.Unflatten),
    *(nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout),
    *(nn.PixelShuffle, nn.PixelUnshuffle, nn.ChannelShuffle),
)


_OURS = ("torch.nn.modules.", "torchresidual.")
_QUIET: dict[type[nn.Module], bool] = {}


def writes_into_input(layer: nn.Module) -> Writes:
    """Say whether a layer may write into its input, as far as its type tells.

    Args:
        layer: Any module. A container is judged by its first layers up to one that makes a new tensor.
    """
    return _judged(layer)[0]


def never_writes(layer: nn.Module) -> bool:
    """Say whether a layer is of a type that cannot be told to write into its input, as nn.Linear is.

    Args:
        layer: Any module; of a container the answer is False, which says nothing about what it holds.
    """
    return not layer._modules and "inplace" not in layer.__dict__ and _is_quiet(type(layer))


def _is_quiet(kind: type[nn.Module]) -> bool:
    """Say whether a class is of torch.nn and has no switch of its own for writing in place."""
    quiet = _QUIET.get(kind)
    if quiet is None:
        quiet = kind.__module__.startswith("torch.nn.modules.") and not hasattr(kind, "inplace")
        if quiet:  # of the user's own classes, which come and go, nothing is kept
            _QUIET[kind] = quiet
    return quiet


def returns_its_input(layer: nn.Module) -> bool:
    """Say whether a layer is known to give back its input or a view of it, unwritten, as nn.Identity does.

    Args:
        layer: Any module.
    """
    writes, passes = _judged(layer)
    return passes and writes is Writes.NEVER


def switches_of(layer: nn.Module) -> Iterator[nn.Module]:
    """Yield the layers that decide by an attribute ``inplace`` whether they write: a user may flip it at any time.

    Args:
        layer: A layer, or a container of layers.
    """
    for leaf in _leaves(layer):
        # Not hasattr(leaf), which would search its children.
        if "inplace" in leaf.__dict__ or hasattr(type(leaf), "inplace"):
            yield leaf


def _judged(layer: nn.Module) -> tuple[Writes, bool]:
    """Return what a layer does to its input's memory, and whether its output may be that memory still."""
    verdict = Writes.NEVER
    for leaf in _leaves(layer):
        writes, passes = _judged_alone(leaf)
        if writes is Writes.IN_PLACE:
            return writes, True  # its input gets a copy, which also serves what stands before it
        verdict = max(verdict, writes)
        if not passes:
            return verdict, False
    return verdict, True


def _judged_alone(layer: nn.Module) -> tuple[Writes, bool]:
    # Where a RecurrentWrapper and torch.compile keep what they were given.
    kept = layer._modules["_orig_mod"] if "_orig_mod" in layer._modules else None  # noqa: SIM401 - TorchScript's has no get()
    wrapped = layer.module if isinstance(layer, RecurrentWrapper) else kept
    if isinstance(wrapped, nn.Module):
        return _judged(wrapped)
    if layer.__dict__.get("inplace", getattr(type(layer), "inplace", False)) is True:
        return Writes.IN_PLACE, True
    if isinstance(layer, _PASS_THROUGH):
        return Writes.NEVER, True
    if type(layer).__module__.startswith(_OURS):
        return Writes.NEVER, False
    return Writes.UNKNOWN, True


def _leaves(layer: nn.Module) -> Iterator[nn.Module]:
    """Yield what a layer runs, in order: what the sequences in it hold, or the layer itself."""
    open_layers = [layer]
    while open_layers:  # no recursion: of blocks in one another each looks into all within
        layer = open_layers.pop()
        if _is_sequence(layer):
            open_layers += [child for child in reversed(layer._modules.values()) if child is not None]
        else:
            yield layer


def _is_sequence(layer: nn.Module) -> bool:
    """Say whether a module runs its children in order: a Sequential whose ``forward`` is torch's or ours."""
    return isinstance(layer, nn.Sequential) and type(layer).forward.__module__.startswith(_OURS)
