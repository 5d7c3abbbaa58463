"""When to run what, how often and until when: calibration, interleaving, budgets and failures.

The engine knows neither torch nor a real clock. It is handed exercises, which run iterations, and a stopwatch,
which says how long the parts of them took, so that every rule below is tested on paper.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rescli.bench.failure import ENDINGS, Failure, describe_failure
from rescli.bench.stats import median_interval, quantile
from rescli.bench.subject import Exercise, Limits, Series, Subject, side_by_side

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rescli.bench.result import PassName
    from rescli.bench.stopwatch import Lap, Stopwatch

# Calls after the first one that settle caches, allocators and clock rates, unless they would eat the budget.
_WARM_UP_CALLS = 3
# A call that takes more than this share of the time that is left is too dear to be run for nothing.
_DEAR = 0.1
# Samples longer than this do without untimed calls before them: what cold caches cost is lost in the rest.
_LEAD_IN_BELOW_S = 0.02
# Aim a little above the shortest sample allowed, so that noise does not force another round.
_AIM = 1.2
# A sample below this share of the shortest allowed shows that calibration met a machine that stalled.
_TOO_SHORT = 0.5
# The variant that all others are compared with.
BLOCK = "block"
# A clock that never advances must not calibrate forever.
_MOST_ITERATIONS = 1_000_000
# Fewer samples than this are never called enough, however narrow their interval.
_FEWEST_FOR_TIGHT = 30


@dataclass(slots=True)
class _Run:
    """What is known of a subject so far; a sample's turn is None if it was taken outside of the rounds of turns."""

    subject: Subject
    exercise: Exercise | None = None
    first_call_s: Mapping[PassName, float] = field(default_factory=dict)
    iterations: int = 0
    laps: list[Lap] = field(default_factory=list)
    turns: list[int | None] = field(default_factory=list)
    failures: dict[PassName, Failure] = field(default_factory=dict)
    check_at: int = _FEWEST_FOR_TIGHT
    tight: bool = False

    def start_series(self, iterations: int, lap: Lap) -> None:
        """Begin with laps of this many iterations, whatever was there before."""
        self.iterations, self.laps, self.turns = iterations, [lap], [None]
        self.check_at, self.tight = _FEWEST_FOR_TIGHT, False

    def samples_of(self, name: PassName) -> list[float]:
        return [lap.totals_s[name] / self.iterations for lap in self.laps if name in lap.totals_s]

    def walls_of(self, name: PassName) -> list[float]:
        # The host only sees whole laps, so a part of one has no wall time.
        if name not in ("inference", "step") and len(self.subject.passes) > 1:
            return []
        return [lap.wall_s / self.iterations for lap in self.laps if lap.wall_s is not None]


def _no_report(_label: str) -> None:
    """Say nothing."""


def _no_recovery() -> None:
    """Leave everything as it is."""


class Engine:
    """Measures subjects side by side.

    Call :meth:`open`, then :meth:`sample`; :meth:`series` gives what is known at any moment, also after an
    interruption in the middle of either.

    Args:
        subjects: What to measure. They take turns, so that a machine that drifts drifts for all of them.
        stopwatch: Times the samples and the budget.
        limits: When to stop.
        seed: Decides the random order of the turns.
        report: Told what runs now.
        recover: Called after a failure, to give memory back.
    """

    def __init__(
        self,
        subjects: Sequence[Subject],
        stopwatch: Stopwatch,
        limits: Limits,
        *,
        seed: int = 0,
        report: Callable[[str], None] = _no_report,
        recover: Callable[[], None] = _no_recovery,
    ) -> None:
        self._stopwatch = stopwatch
        self._limits = limits
        # Any order will do, as long as it is mixed and can be had again.
        self._order = random.Random(seed)  # noqa: S311
        self._report = report
        self._recover = recover
        self._runs = [_Run(subject) for subject in subjects]
        self._turn = 0
        self._check_ratios_at = _FEWEST_FOR_TIGHT

    def open(self) -> None:
        """Build every subject, make its first call, warm it up and find how many calls make a sample."""
        for run in self._runs:
            self._report(run.subject.label)
            self._guarded(run, self._open)

    def sample(self) -> None:
        """Take samples in turns until all intervals are tight or the time is over.

        Where variants are compared, those of the ratios have to be tight as well. How wide they are decides, never
        what they say: to stop as soon as a verdict is reached would reach it too often.
        """
        started_s = self._stopwatch.now_s()
        live = [run for run in self._runs if run.laps]
        while live:
            self._order.shuffle(live)
            for run in live:
                self._report(run.subject.label)
                self._guarded(run, self._take)
            # Whoever did not take its turn, for want of time or because it failed, never will again.
            live = [run for run in live if run.exercise is not None and self._fits(run.laps[-1].taken_s)]
            long_enough = self._stopwatch.now_s() - started_s >= self._limits.min_time_s
            tight = [self._is_tight(run) for run in live]
            if all(tight) and long_enough and self._ratios_are_tight():
                return
            self._turn += 1

    def exercises(self, variant: str = BLOCK) -> tuple[Exercise, ...]:
        """Give the exercises of a variant that still work, for measurements other than of time."""
        runs = [run for run in self._runs if run.subject.variant == variant and run.laps]
        return tuple(run.exercise for run in runs if run.exercise is not None)

    def time_left_s(self) -> float:
        """Give the seconds until the deadline."""
        return self._limits.deadline_s - self._stopwatch.now_s()

    def cheapest_call_s(self) -> float:
        """Give the least that one call of any subject has taken from the budget; 0 before any has."""
        calls = [lap.taken_s / run.iterations for run in self._runs for lap in run.laps[-1:]]
        return min(calls, default=0.0)

    def series(self) -> tuple[Series, ...]:
        """Give what is known by now, a series for each pass of each subject."""
        found: list[Series] = []
        for run in self._runs:
            names = dict.fromkeys((*run.subject.passes, *run.failures))
            for name in names:
                samples = tuple(run.samples_of(name))
                found.append(
                    Series(
                        pass_name=name,
                        samples_s=samples,
                        walls_s=tuple(run.walls_of(name)) if samples else (),
                        iterations=run.iterations if samples else 0,
                        first_call_s=run.first_call_s.get(name),
                        failure=run.failures.get(name),
                        variant=run.subject.variant,
                        turns=tuple(
                            turn
                            for turn, lap in zip(run.turns, run.laps, strict=True)
                            if name in lap.totals_s
                        ),
                    )
                )
        return tuple(found)

    def _guarded(self, run: _Run, action: Callable[[_Run], None]) -> None:
        """Do something with a run; what it raises becomes a fact of the run and ends nothing else."""
        failure: Failure | None = None
        try:
            action(run)
        # Whatever a user's module raises is a result. The handler ends before the next attempt, so that the
        # exception's frames let go of their tensors.
        except ENDINGS:
            raise
        except BaseException as error:  # noqa: BLE001 - sys.exit in a forward, too
            failure = describe_failure(error)
        if failure is not None:
            self._give_up(run, action, failure)

    def _give_up(self, run: _Run, action: Callable[[_Run], None], failure: Failure) -> None:
        """Note that a run has failed, or put its fallback in its place."""
        fallback = run.subject.fallback
        lost = run.subject.passes
        run.exercise = None
        self._recover()
        if fallback is not None and not run.first_call_s:
            lost = tuple(name for name in lost if name not in fallback.passes)
            run.subject = fallback
        run.failures.update(dict.fromkeys(lost, failure))
        if run.subject is fallback:
            self._guarded(run, action)

    def _open(self, run: _Run) -> None:
        if not self._fits(self.cheapest_call_s()):
            return
        exercise = self._build(run.subject)
        first = self._stopwatch.time(exercise, 1)
        run.first_call_s = first.totals_s
        run.exercise = exercise
        for _ in range(_WARM_UP_CALLS):
            if self._is_dear(first.taken_s):
                break
            self._stopwatch.time(exercise, 1)
        self._calibrate(run, exercise, first.taken_s)

    def _build(self, subject: Subject) -> Exercise:
        made: list[Exercise] = []
        # In a group of processes, one that cannot build it stops the others as well.
        self._stopwatch.gather(lambda: made.append(subject.make()))
        return made[0]

    def _calibrate(self, run: _Run, exercise: Exercise, expected_s: float, iterations: int = 1) -> None:
        """Find how many calls make a sample; the block that proves it is the first sample.

        A single block may be long because of a hiccup: two of the same size must be, unless they are dear.
        If the time is over before that, everything stays as it was.
        """
        proven = False
        while self._fits(expected_s):
            lap = self._stopwatch.time(exercise, iterations, lead_in=proven and not self._is_long(expected_s))
            shortest_s = min(lap.totals_s.values())
            if shortest_s >= self._limits.sample_s or iterations >= _MOST_ITERATIONS:
                if proven or self._is_dear(lap.taken_s):
                    run.start_series(iterations, lap)
                    return
                proven, expected_s = True, lap.taken_s
                continue
            proven = False
            grown = _grow(iterations, shortest_s, self._limits.sample_s)
            expected_s = lap.taken_s * grown / iterations
            iterations = grown

    def _take(self, run: _Run) -> None:
        """Take one sample; if it shows that samples are too short, begin anew with longer ones."""
        latest = run.laps[-1]
        if run.exercise is None or not self._fits(latest.taken_s):
            return
        lead_in = not self._is_long(latest.taken_s)
        lap = self._stopwatch.time(run.exercise, run.iterations, lead_in=lead_in)
        run.laps.append(lap)
        run.turns.append(self._turn)
        shortest_s = min(lap.totals_s.values())
        if shortest_s < _TOO_SHORT * self._limits.sample_s and run.iterations < _MOST_ITERATIONS:
            grown = _grow(run.iterations, shortest_s, self._limits.sample_s)
            self._calibrate(run, run.exercise, lap.taken_s * grown / run.iterations, grown)

    def _fits(self, expected_s: float) -> bool:
        now_s = self._stopwatch.now_s()
        return now_s < self._limits.deadline_s and now_s + expected_s <= self._limits.deadline_s

    def _is_long(self, taken_s: float) -> bool:
        return taken_s >= _LEAD_IN_BELOW_S

    def _is_dear(self, taken_s: float) -> bool:
        return taken_s > _DEAR * self.time_left_s()

    def _is_tight(self, run: _Run) -> bool:
        """Look, now and then, whether the intervals of a run are narrow enough."""
        if len(run.laps) >= run.check_at:
            # Sorting anew at every sample would cost more than the samples.
            run.check_at = math.ceil(1.2 * len(run.laps))
            run.tight = all(
                is_tight(run.samples_of(name), self._limits.tightness) for name in run.subject.passes
            )
        return run.tight

    def _ratios_are_tight(self) -> bool:
        """Look, now and then, whether the ratios of all variants to the block are known well enough."""
        if len({run.subject.variant for run in self._runs}) == 1:
            return True
        if self._turn + 1 < self._check_ratios_at:
            return False
        self._check_ratios_at = math.ceil(1.2 * (self._turn + 1))
        series = {(one.variant, one.pass_name): one for one in self.series() if one.samples_s}
        for (variant, name), one in series.items():
            if variant == BLOCK or (BLOCK, name) not in series:
                continue
            pairs = zip(*side_by_side(series[BLOCK, name], one), strict=True)
            ratios = [b / a for a, b in pairs if a > 0]
            if ratios and not is_tight(ratios, self._limits.tightness):
                return False
        return True


def is_tight(samples: Sequence[float], tightness: float) -> bool:
    """Say whether the 95% interval lies within a share around the median.

    Args:
        samples: At least one value.
        tightness: The share, as 0.01.

    Example:
        >>> is_tight([1.0] * 30, 0.01)
        True
    """
    ordered = sorted(samples)
    interval = median_interval(ordered)
    if interval is None:
        return False
    median = quantile(ordered, 0.5)
    return max(median - interval[0], interval[1] - median) <= tightness * median


def _grow(iterations: int, shortest_s: float, sample_s: float) -> int:
    """Give the number of iterations to try next, at most ten times as many."""
    factor = 10.0 if shortest_s <= 0 else min(10.0, _AIM * sample_s / shortest_s)
    return min(_MOST_ITERATIONS, max(iterations + 1, math.ceil(iterations * factor)))
