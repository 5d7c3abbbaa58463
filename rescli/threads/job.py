"""What a thread does in a check, where that is more than to call the module once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from rescli.threads.outcome import call

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor, nn

    from rescli.threads.outcome import Outcome

    Between = Callable[[Sequence[object]], None]


class Job(ABC):
    """A thread's work, made anew for each run.

    Args:
        module: The module that it is about.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module

    @abstractmethod
    def perform(self, inputs: Sequence[Tensor], between: Between | None = None) -> Outcome:
        """Do the work, in the thread.

        Args:
            inputs: What the thread calls the module with.
            between: Called with the outputs after forward, before the gradients.
        """

    def finish(self, outcome: Outcome) -> Outcome:
        """Add what can only be known after all threads have ended.

        Args:
            outcome: What ``perform`` gave.
        """
        return outcome


def perform(callee: nn.Module | Job, inputs: Sequence[Tensor], between: Between | None = None) -> Outcome:
    """Do a thread's work: a job, or for a module one call of it.

    Args:
        callee: What the thread was given.
        inputs: What to call it with.
        between: Called with the outputs after forward, before the gradients.
    """
    if isinstance(callee, Job):
        return callee.perform(inputs, between)
    return call(callee, inputs, between)
