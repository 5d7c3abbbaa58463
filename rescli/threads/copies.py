"""Copies of a module to run on, so that the user's own stays as it is."""

from __future__ import annotations

import copy
import sys
import threading
from typing import TYPE_CHECKING, TypeVar

from rescli.threads.outcome import describe_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import nn

    from rescli.threads.locks import Lock

Module = TypeVar("Module", bound="nn.Module")

_LOCKS: dict[type, Callable[[], Lock]] = {
    type(threading.Lock()): threading.Lock,
    type(threading.RLock()): threading.RLock,
}


class IncomparableError(Exception):
    """Nothing can be said about this module; the text is the reason, to follow ``skip``."""


class NeverEndsError(IncomparableError):
    """A thread that is alone does not come to its end."""


def copy_module(module: Module, dress: Callable[[Lock], object] | None = None) -> Module:
    """Copy a module deeply, with fresh locks for those it keeps as attributes.

    Locks refuse to be copied, and a module that protects itself with one should not go unchecked for it.

    Args:
        module: What to copy.
        dress: Given each fresh lock, says what takes its place; None for the locks themselves.

    Raises:
        IncomparableError: The module refuses to be copied.
    """
    memo: dict[int, object] = {}
    for layer in module.modules():
        for value in vars(layer).values():
            if type(value) in _LOCKS:
                fresh = _LOCKS[type(value)]()
                memo[id(value)] = fresh if dress is None else dress(fresh)
    try:
        return copy.deepcopy(module, memo)
    except Exception as error:  # the module's own __deepcopy__ and its attributes may raise anything
        raise IncomparableError(f"the module cannot be copied: {describe_error(error)}") from error


def in_each_mode(module: nn.Module) -> Iterator[nn.Module]:
    """Give a copy in the module's own mode, then one in eval mode if that is another one.

    Args:
        module: What to copy.
    """
    yield copy_module(module)
    if any(layer.training for layer in module.modules()):
        yield copy_module(module).eval()


def refuse_compiled(module: nn.Module) -> None:
    """Refuse what ``torch.compile`` made, whose first calls from several threads PyTorch does not support.

    Args:
        module: The module to be checked.

    Raises:
        IncomparableError: It, or a part of it, is compiled.
    """
    # Nothing is compiled where this was never imported, and importing it takes seconds.
    dynamo = sys.modules.get("torch._dynamo.eval_frame")
    for path, layer in module.named_modules():
        if getattr(layer, "_compiled_call_impl", None) is not None or (
            dynamo is not None and isinstance(layer, dynamo.OptimizedModule)
        ):
            place = f"{path} ({type(layer).__name__})" if path else "the module"
            raise IncomparableError(
                f"{place} is compiled, and PyTorch does not promise that compiled modules can be shared by "
                "threads: check the module that was given to torch.compile"
            )
