"""What the engine is given and what it gives back: exercises, subjects, limits and series of samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rescli.bench.failure import Failure
    from rescli.bench.result import PassName


class Exercise(Protocol):
    """A piece of work whose calls are timed, one or several passes at once."""

    @property
    def parts(self) -> Mapping[PassName, tuple[int, ...]]:
        """The passes that a call goes through, each with the places of its intervals in the period."""
        ...

    @property
    def period(self) -> int:
        """After how many intervals between marks the next call begins."""
        ...

    def run(self, iterations: int, mark: Callable[[], None]) -> None:
        """Run calls, with a mark wherever a timed part begins or ends.

        Args:
            iterations: How many calls.
            mark: The clock's mark, or a memory meter's.
        """
        ...


@dataclass(frozen=True, slots=True)
class Subject:
    """Something to measure, not built yet: building it may already fail.

    Args:
        label: What the progress line calls it.
        passes: The passes whose times it yields.
        make: Builds the exercise.
        fallback: Measured in its place if the first call fails, for what can be known without the part that
            fails.
        variant: Which form of the block it is. Each other one is compared with ``block``.
    """

    label: str
    passes: tuple[PassName, ...]
    make: Callable[[], Exercise]
    fallback: Subject | None = None
    variant: str = "block"


@dataclass(frozen=True, slots=True)
class Limits:
    """How long to measure, and how well.

    Args:
        deadline_s: Time on the clock by which everything has ended.
        min_time_s: Sampling goes on at least this long, if the deadline allows.
        sample_s: Shortest sample: every pass of a block of iterations takes at least this long.
        tightness: Sampling may end when each 95% interval lies within this share around its median.
    """

    deadline_s: float
    min_time_s: float
    sample_s: float = 1e-3
    tightness: float = 0.01


@dataclass(frozen=True, slots=True)
class Series:
    """The samples of one pass.

    Args:
        pass_name: Which pass.
        samples_s: Seconds of one call, in the order they were taken.
        walls_s: The same on the host's clock; empty where that is the clock of the samples.
        iterations: Calls that each sample averages over; 0 if there is none.
        first_call_s: Seconds of the first call, or None if there was no time for it.
        failure: Why there are no (more) samples, if that is because something went wrong.
        variant: Which form of the block it is.
        turns: In which round of turns each sample was taken; None for one that was taken outside of them.
    """

    pass_name: PassName
    samples_s: tuple[float, ...]
    walls_s: tuple[float, ...]
    iterations: int
    first_call_s: float | None
    failure: Failure | None
    variant: str = "block"
    turns: tuple[int | None, ...] = ()


def side_by_side(a: Series, b: Series) -> tuple[list[float], list[float]]:
    """Give the samples of two series that were taken in the same rounds of turns, in pairs.

    Args:
        a: One series of an engine.
        b: Another.
    """
    of_b = {turn: sample for turn, sample in zip(b.turns, b.samples_s, strict=True) if turn is not None}
    pairs = [(sample, of_b[turn]) for turn, sample in zip(a.turns, a.samples_s, strict=True) if turn in of_b]
    return [first for first, _ in pairs], [second for _, second in pairs]


def add_up(intervals: Sequence[float], exercise: Exercise) -> dict[PassName, float]:
    """Add up the intervals between the marks of one run, for each pass.

    Args:
        intervals: From each mark to the next.
        exercise: Says which of them belong to which pass; what belongs to none is left out.
    """
    return {
        name: sum(sum(intervals[place :: exercise.period]) for place in places)
        for name, places in exercise.parts.items()
    }
