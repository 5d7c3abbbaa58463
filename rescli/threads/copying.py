"""Copies of a module that other threads are running: by deepcopy, by pickle, and its state_dict."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from rescli.threads.job import Job
from rescli.threads.outcome import Outcome, call, describe_error
from rescli.threads.result import WORKS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rescli.threads.job import Between

_REFUSED = "raises "


def _through_pickle(module: nn.Module) -> nn.Module:
    copied = pickle.loads(pickle.dumps(module))  # noqa: S301 - what was written a moment ago
    assert isinstance(copied, nn.Module)  # noqa: S101 - a module's pickle holds the module
    return copied


_WAYS: dict[str, Callable[[nn.Module], nn.Module]] = {"deepcopy": copy.deepcopy, "pickle": _through_pickle}


class Copier(Job):
    """Copies a module in every way, and calls the copies.

    Args:
        module: The module, which other threads may be running.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__(module)
        # What a first call makes or sizes may be there or not.
        self._entries = [name for name, value in module.state_dict().items() if not is_lazy(value)]

    def perform(self, inputs: Sequence[Tensor], between: Between | None = None) -> Outcome:
        """Copy, and give what the copies give and what the state_dict holds."""
        start = torch.get_rng_state()
        values: dict[str, object] = {}
        for name, way in _WAYS.items():
            torch.set_rng_state(start)
            try:
                found = call(way(self.module), inputs, between)
            except Exception as error:  # noqa: BLE001 - what is raised is what this way of copying gives
                values[name] = _REFUSED + describe_error(error)
            else:
                values[name] = WORKS
                values |= {f"{name}'s {what}": value for what, value in found.values.items()}
        state = self.module.state_dict()
        for what in self._entries:
            value = state.get(what)
            values[f"state_dict's {what}"] = value.clone() if isinstance(value, Tensor) else value
        return Outcome(values)


def copy_while_running(module: nn.Module, threads: int) -> tuple[nn.Module | Job, ...]:
    """Let every second thread copy the module that the others run.

    Args:
        module: The module.
        threads: How many threads there are.
    """
    return tuple(Copier(module) if index % 2 else module for index in range(threads))


def refused(outcome: Outcome) -> str:
    """Say which ways of copying do not work even while nobody else runs; empty if all work.

    Args:
        outcome: What copying gave in a single thread.
    """
    told = [f"{name} {text}" for name in _WAYS if str(text := outcome.values.get(name)).startswith(_REFUSED)]
    return f"not compared, since even alone {' and '.join(told)}" if told else ""
