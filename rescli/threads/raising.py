"""An exception in one thread, at a layer of our choice, and what the thread gets afterwards."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

import torch

from rescli.threads.job import Job
from rescli.threads.outcome import Outcome, call

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor, nn

    from rescli.threads.arrange import Arrangement
    from rescli.threads.job import Between

CONTEXT = "torchresidual's context after the exception"
AS_BEFORE = "as before"


class _PlantedError(Exception):
    """What is raised in the middle of a forward."""


class Raiser(Job):
    """Calls a module, has an exception raised before some layers, and calls it again in the same thread.

    Args:
        module: The module. Threads may share it: nothing is raised in other threads.
        paths: The layers before which the exception is raised, each in a call of its own.
    """

    def __init__(self, module: nn.Module, paths: Sequence[str]) -> None:
        super().__init__(module)
        self._paths = paths
        self._own = threading.local()
        for path in paths:
            module.get_submodule(path).register_forward_pre_hook(self._raiser(path))

    def perform(self, inputs: Sequence[Tensor], between: Between | None = None) -> Outcome:
        """Give what the call after the exceptions gives, and whether the context is as before."""
        before, randomness = _context(), torch.get_rng_state()
        for path in self._paths:
            self._own.path = path
            try:
                self.module(*(value.clone() for value in inputs))
            except _PlantedError:
                pass
            finally:
                self._own.path = None
        # The calls that broke off have drawn numbers; the one that is compared draws those it would have drawn.
        torch.set_rng_state(randomness)
        changed = [name for name, value in _context().items() if value is not before[name]]
        state = f"another {' and '.join(changed)}" if changed else AS_BEFORE
        return Outcome({CONTEXT: state, **call(self.module, inputs, between).values})

    def _raiser(self, path: str) -> Callable[..., None]:
        def step_in(*_: object) -> None:
            if getattr(self._own, "path", None) == path:
                raise _PlantedError

        return step_in


def raise_in_one(paths: Sequence[str]) -> Arrangement:
    """Let threads share a module, and have the first one meet exceptions.

    Args:
        paths: The layers before which they are raised.
    """

    def arrange(module: nn.Module, threads: int) -> tuple[nn.Module | Job, ...]:
        return (Raiser(module, paths), *(module for _ in range(threads - 1)))

    return arrange


def _context() -> dict[str, object]:
    """Look what torchresidual knows of the forwards that run in this thread; nothing if it is not there."""
    core = sys.modules.get("torchresidual.core")
    context = getattr(core, "_context", None)
    return {name: getattr(context, name, None) for name in ("current_sequential", "frame")}
