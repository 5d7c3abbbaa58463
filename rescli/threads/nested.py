"""Calls within calls: a thread calls the module again before its own forward has ended."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import torch

from rescli.threads.job import Job
from rescli.threads.outcome import Outcome, call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor, nn

    from rescli.threads.arrange import Arrangement
    from rescli.threads.job import Between

INNER = "inner call's "


class Reentrant(Job):
    """Calls a module, and once more from within, as recomputation and recursive networks do.

    Args:
        module: The module. Threads may share it: each steps into its own calls only.
        path: The layer before which the inner call takes place.
        inner: What the inner call is made with.
        seed: Where the random numbers of the inner call start; those of the outer one go on after it.
    """

    def __init__(self, module: nn.Module, path: str, inner: Sequence[Tensor], seed: int) -> None:
        super().__init__(module)
        self._inner = inner
        self._start = torch.Generator().manual_seed(seed).get_state()
        self._own = threading.local()
        module.get_submodule(path).register_forward_pre_hook(self._step_in)

    def perform(self, inputs: Sequence[Tensor], between: Between | None = None) -> Outcome:
        """Make the outer call, which makes the inner one; both have outputs and gradients."""
        self._own.waiting, self._own.found = True, Outcome({})
        outer = call(self.module, inputs, between)
        return merged(outer, self._own.found)

    def _step_in(self, *_: object) -> None:
        # Only for the thread whose job this is, and not again from the inner call.
        if getattr(self._own, "waiting", False):
            self._own.waiting = False
            state = torch.get_rng_state()
            torch.set_rng_state(self._start)
            self._own.found = call(self.module, self._inner)
            torch.set_rng_state(state)


def reenter(path: str, inputs: Sequence[Sequence[Tensor]], seed: int) -> Arrangement:
    """Let threads share a module, each with an inner call on the next thread's input.

    Args:
        path: The layer before which the inner calls take place.
        inputs: The inputs of the threads.
        seed: Where the random numbers of the inner calls start.
    """

    def arrange(module: nn.Module, threads: int) -> tuple[Job, ...]:
        return tuple(Reentrant(module, path, inputs[(index + 1) % threads], seed) for index in range(threads))

    return arrange


def merged(outer: Outcome, inner: Outcome) -> Outcome:
    """Put two calls that were made one after the other together, as if the second had been made within.

    Args:
        outer: What the outer call gives.
        inner: What the inner one gives.
    """
    return Outcome({**outer.values, **{INNER + name: value for name, value in inner.values.items()}})
