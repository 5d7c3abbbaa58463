"""Times an exercise as the engine asks for it: in this process alone, or by a whole group of processes."""

from __future__ import annotations

import gc
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from rescli.bench.subject import add_up

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rescli.bench.clock import Clock
    from rescli.bench.result import PassName
    from rescli.bench.subject import Exercise

Result = TypeVar("Result")

# Each sample is led in by untimed calls, a quarter as many as it times: after another subject's turn the first
# calls find caches and branch predictors cold, measured as 6 to 9% of a sample of a millisecond.
_LEAD_IN_SHARE = 4


@dataclass(frozen=True, slots=True)
class Lap:
    """The times of one block of iterations.

    Args:
        totals_s: Seconds of all iterations together, for each pass.
        wall_s: Seconds on the host's clock, where the times are a device's own; else None.
        taken_s: What the block took from the budget, with all that is not timed.
    """

    totals_s: Mapping[PassName, float]
    wall_s: float | None
    taken_s: float


class Stopwatch(Protocol):
    """What the engine needs to know of time, and the way in which it has work done."""

    def now_s(self) -> float:
        """Give the seconds of a clock, for budgets."""
        ...

    def time(self, exercise: Exercise, iterations: int, *, lead_in: bool = False) -> Lap:
        """Run a block of iterations.

        Args:
            exercise: What to run.
            iterations: How many calls.
            lead_in: Whether untimed calls come first.
        """
        ...

    def gather(self, action: Callable[[], Result]) -> list[Result]:
        """Do something in every process, and give the results of all.

        Args:
            action: What to do. If it fails in one process, this raises in all of them.
        """
        ...


class ClockStopwatch:
    """The stopwatch of one process.

    Args:
        clock: Times the parts of a block.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now_s(self) -> float:
        """Give the seconds of the clock."""
        return self._clock.now_s()

    def time(self, exercise: Exercise, iterations: int, *, lead_in: bool = False) -> Lap:
        """Run a block of iterations, with one synchronisation before and one after it."""
        started_s = self._clock.now_s()
        # As timeit does: a collection belongs to nobody's block.
        collecting = gc.isenabled()
        gc.disable()
        try:
            if lead_in:
                exercise.run(math.ceil(iterations / _LEAD_IN_SHARE), _no_mark)
            self._clock.begin()
            exercise.run(iterations, self._clock.mark)
            times = self._clock.end()
        finally:
            if collecting:
                gc.enable()
        totals_s = add_up(times.intervals_s, exercise)
        return Lap(totals_s, times.wall_s, self._clock.now_s() - started_s)

    def gather(self, action: Callable[[], Result]) -> list[Result]:
        """Do it here."""
        return [action()]


def _no_mark() -> None:
    """Time nothing."""
