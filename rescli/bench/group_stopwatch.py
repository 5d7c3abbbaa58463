"""The stopwatch of a group of processes: all do the same, and the slowest one's time counts.

Every decision of the engine (how many calls make a sample, whose turn it is, when to stop) follows from times and
failures. After each piece of work the processes tell each other theirs, and each goes on with what they have agreed
on: the greatest times, the clock of the first process, and the first failure. So all decide alike, and none waits in
a collective operation for one that does something else.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Generic, TypeVar

from rescli.bench.failure import (
    FailedAloneError,
    FailedError,
    Failure,
    SilentPeersError,
    describe_failure,
)
from rescli.bench.stopwatch import Lap

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rescli.bench.peers import Peers
    from rescli.bench.stopwatch import Stopwatch
    from rescli.bench.subject import Exercise

Result = TypeVar("Result")

# A pass that fails mostly fails everywhere at once. If it does not, the others are in a collective operation that
# will never end, and there is no use in waiting for them any longer than this.
PATIENCE = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class _Report(Generic[Result]):
    """What a process tells of a piece of work; ``result`` is empty if it failed."""

    now_s: float
    result: tuple[Result, ...]
    failure: Failure | None
    interrupted: bool


class GroupStopwatch:
    """The stopwatch of a process in a group.

    Args:
        alone: Times this process.
        peers: The others.
        is_interrupted: Says whether Ctrl-C was pressed; all processes then end at the same point.
        patience: How long a process that failed waits for the others.
    """

    def __init__(
        self,
        alone: Stopwatch,
        peers: Peers,
        is_interrupted: Callable[[], bool] = lambda: False,
        patience: timedelta = PATIENCE,
    ) -> None:
        self._alone = alone
        self._peers = peers
        self._is_interrupted = is_interrupted
        self._patience = patience
        self._now_s = 0.0

    def now_s(self) -> float:
        """Give the first process's clock as it was when all were last asked."""
        return self._now_s

    def time(self, exercise: Exercise, iterations: int, *, lead_in: bool = False) -> Lap:
        """Run a block of iterations in every process; each pass takes as long as in the slowest one."""
        return slowest(self.gather(lambda: self._alone.time(exercise, iterations, lead_in=lead_in)))

    def gather(self, action: Callable[[], Result]) -> list[Result]:
        """Do something in every process.

        Raises:
            FailedError: It failed in a process; all raise the same.
            FailedAloneError: It failed here, and the others are stuck.
            KeyboardInterrupt: Ctrl-C was pressed.
        """
        report = self._try(action)
        try:
            if report.failure is None:
                reports = self._peers.exchange(report)
            else:
                reports = self._peers.exchange(report, patience=self._patience)
        except SilentPeersError:
            if report.failure is not None:
                raise FailedAloneError(report.failure) from None
            raise
        self._now_s = reports[0].now_s
        if any(one.interrupted for one in reports):
            raise KeyboardInterrupt
        failures = [one.failure for one in reports if one.failure is not None]
        if failures:
            raise FailedError(failures[0])
        return [result for one in reports for result in one.result]

    def _try(self, action: Callable[[], Result]) -> _Report[Result]:
        result: tuple[Result, ...] = ()
        failure: Failure | None = None
        interrupted = False
        try:
            result = (action(),)
        except KeyboardInterrupt:
            interrupted = True
        # As in the engine: whatever a block raises is a result, and its frames are let go of.
        except BaseException as error:  # noqa: BLE001
            failure = describe_failure(error)
        return _Report(self._alone.now_s(), result, failure, interrupted or self._is_interrupted())


def slowest(laps: Sequence[Lap]) -> Lap:
    """Give the greatest time of each pass.

    Args:
        laps: What each process has measured of the same calls.

    Example:
        >>> slowest([Lap({"step": 1.0}, None, 3.0), Lap({"step": 2.0}, None, 2.0)])
        Lap(totals_s={'step': 2.0}, wall_s=None, taken_s=3.0)
    """
    walls = [lap.wall_s for lap in laps if lap.wall_s is not None]
    return Lap(
        totals_s={name: max(lap.totals_s[name] for lap in laps) for name in laps[0].totals_s},
        wall_s=max(walls, default=None),
        taken_s=max(lap.taken_s for lap in laps),
    )
