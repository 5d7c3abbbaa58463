"""First calls at once: weights that are made twice, so that some thread has used ones that are lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

from rescli.threads.job import Job
from rescli.threads.outcome import Outcome, call

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rescli.threads.job import Between

LOST = "number of parameters it used that the module does not hold"


class FirstCall(Job):
    """Calls a module, and looks at the end of all threads whether it still holds what this one used.

    A layer that two threads make at once may give both the right values; but one of the two is thrown away,
    and with it the gradients of the thread that has used it.

    Args:
        module: The module, which all threads share.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__(module)
        self._used: list[Tensor] = []

    def perform(self, inputs: Sequence[Tensor], between: Between | None = None) -> Outcome:
        """Call the module and note the parameters that its outputs come from."""

        def look(outputs: Sequence[object]) -> None:
            self._used = list(_parameters_behind(outputs))
            if between is not None:
                between(outputs)

        return call(self.module, inputs, look)

    def finish(self, outcome: Outcome) -> Outcome:
        """Count the parameters that have been lost since."""
        if outcome.error is not None:
            return outcome
        held = {id(parameter) for parameter in self.module.parameters()}
        return Outcome({**outcome.values, LOST: sum(id(used) not in held for used in self._used)})


def call_first(module: nn.Module, threads: int) -> tuple[Job, ...]:
    """Let threads share a module that nobody has called yet.

    Args:
        module: The module.
        threads: How many threads there are.
    """
    return tuple(FirstCall(module) for _ in range(threads))


def _parameters_behind(outputs: Sequence[object]) -> Iterator[nn.Parameter]:
    """Walk the graph of autograd from outputs to the parameters that they were computed from."""
    waiting = [output.grad_fn for output in outputs if isinstance(output, Tensor)]
    seen = set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if isinstance(variable, nn.Parameter):
            yield variable
        waiting += [following for following, _ in node.next_functions]
