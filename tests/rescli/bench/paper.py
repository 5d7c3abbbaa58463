"""A clock, exercises and noise on paper: the engine's rules are tested without real time."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from rescli.bench.clock import BlockTimes
from rescli.bench.engine import Engine
from rescli.bench.stopwatch import ClockStopwatch
from rescli.bench.subject import Limits, Subject

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rescli.bench.result import PassName


class PaperClock:
    """A clock that only moves when somebody says so."""

    def __init__(self) -> None:
        self.seconds = 100.0
        self._marks: list[float] = []

    def now_s(self) -> float:
        return self.seconds

    def begin(self) -> None:
        self._marks = []

    def mark(self) -> None:
        self._marks.append(self.seconds)

    def end(self) -> BlockTimes:
        marks = self._marks
        return BlockTimes([b - a for a, b in pairwise(marks)])


@dataclass
class PaperExercise:
    """Work whose duration is written down: each call asks ``call_s`` with its number, from 0."""

    clock: PaperClock
    call_s: Callable[[int], float]
    name: PassName = "inference"
    calls: int = 0
    blocks: list[int] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    period: int = 1

    @property
    def parts(self) -> Mapping[PassName, tuple[int, ...]]:
        return {self.name: (0,)}

    def run(self, iterations: int, mark: Callable[[], None]) -> None:
        self.blocks.append(iterations)
        self.log.append(self.name)
        mark()
        for _ in range(iterations):
            number, self.calls = self.calls, self.calls + 1
            self.clock.seconds += self.call_s(number)
        mark()


def subject(exercise: PaperExercise, fallback: Subject | None = None) -> Subject:
    return Subject(exercise.name, (exercise.name,), lambda: exercise, fallback)


def engine(
    clock: PaperClock,
    subjects: Sequence[Subject],
    *,
    seconds: float = 10.0,
    at_least: float = 0.0,
    seed: int = 0,
) -> Engine:
    limits = Limits(deadline_s=clock.now_s() + seconds, min_time_s=at_least)
    return Engine(subjects, ClockStopwatch(clock), limits, seed=seed)
