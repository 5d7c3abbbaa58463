"""Tries schedule after schedule and keeps the simplest one that goes wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rescli.threads.outcome import compare
from rescli.threads.result import Failure, Wrong
from rescli.threads.schedule import LETTERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rescli.threads.footing import Footing
    from rescli.threads.runner import Blocked, ScheduledRun
    from rescli.threads.schedule import Schedule

# How often the failing schedule is run again before it is reported.
REPLAYS = 3


@dataclass(frozen=True, slots=True)
class Exploration:
    """What came of trying schedules.

    Args:
        runs: How many schedules were followed to their end and compared.
        wrong: How many of these gave a thread a wrong value.
        interrupted: How many of the compared ones had a preemption.
        impossible: How many cannot happen, as a lock in the module makes the other thread wait.
        schedule: The wrong one with the fewest preemptions, or None.
        failure: What went wrong under it, or None.
        replayed: How many times of ``REPLAYS`` it went wrong again.
        in_time: Whether all were tried before the time was up.
        hung: Whether threads did not come to their end even when they ran freely.
    """

    runs: int = 0
    wrong: int = 0
    interrupted: int = 0
    impossible: int = 0
    schedule: Schedule | None = None
    failure: Failure | None = None
    replayed: int = 0
    in_time: bool = True
    hung: bool = False


@dataclass(frozen=True, slots=True)
class _Lock:
    """A thread that cannot get further while the others stand where they do.

    Args:
        others: For each other thread the point where it stands, None after its end.
        thread: The one that waits.
        passed: The last point that it can pass.
    """

    others: tuple[tuple[int, int | None], ...]
    thread: int
    passed: int


@dataclass(slots=True)
class _Tally:
    runs: int = 0
    wrong: int = 0
    interrupted: int = 0
    impossible: int = 0
    schedule: Schedule | None = None
    failure: Failure | None = None
    locks: set[_Lock] = field(default_factory=set)


def explore(footing: Footing, schedules: Iterable[Schedule], out_of_time: Callable[[], bool]) -> Exploration:
    """Run schedules, each on a fresh copy, and compare what every thread gets.

    Args:
        footing: What to run and what to compare with.
        schedules: Of the wrong ones the first with the fewest preemptions is kept.
        out_of_time: Asked before each run.
    """
    tally = _Tally()
    in_time = hung = False
    for schedule in schedules:
        if out_of_time():
            break
        if schedule in footing.right:
            tally.runs += 1
            continue
        if _known_impossible(schedule, tally.locks):
            tally.impossible += 1
            continue
        run = footing.run(schedule)
        if run.hung:
            hung = True
            break
        _count(tally, schedule, run, footing)
    else:
        in_time = True
    replayed = 0
    if tally.schedule is not None:
        replayed = sum(_wrong(footing, footing.run(tally.schedule)) != () for _ in range(REPLAYS))
    return Exploration(
        tally.runs,
        tally.wrong,
        tally.interrupted,
        tally.impossible,
        tally.schedule,
        tally.failure,
        replayed,
        in_time,
        hung,
    )


def _count(tally: _Tally, schedule: Schedule, run: ScheduledRun, footing: Footing) -> None:
    if run.blocked is not None:
        tally.impossible += 1
        tally.locks.add(_lock_of(schedule, run.blocked))
        return
    tally.runs += 1
    tally.interrupted += schedule.preemptions > 0
    wrong = _wrong(footing, run)
    if wrong:
        tally.wrong += 1
        if tally.schedule is None or schedule.preemptions < tally.schedule.preemptions:
            tally.schedule, tally.failure = schedule, Failure(wrong, run.steps)


def _wrong(footing: Footing, run: ScheduledRun) -> tuple[Wrong, ...]:
    return tuple(
        wrong
        for index, (found, expected) in enumerate(zip(run.outcomes, footing.references, strict=False))
        for wrong in compare(LETTERS[index], found, expected)
    )


def _lock_of(schedule: Schedule, blocked: Blocked) -> _Lock:
    """Say where the others stand while which thread cannot get further than which point."""
    reached: dict[int, int | None] = dict.fromkeys(range(schedule.threads), 0)
    for turn in schedule.turns[: blocked.turn]:
        reached[turn.thread] = turn.stop
    waiting = schedule.turns[blocked.turn].thread
    del reached[waiting]
    return _Lock(tuple(reached.items()), waiting, blocked.passed)


def _known_impossible(schedule: Schedule, locks: set[_Lock]) -> bool:
    """Tell whether a schedule would run into a lock that another one has met: who holds it does not move."""
    if not locks:
        return False
    reached: dict[int, int | None] = dict.fromkeys(range(schedule.threads), 0)
    for turn in schedule.turns:
        start = reached.pop(turn.thread)
        others = tuple(reached.items())
        for lock in locks:
            meets = (lock.others, lock.thread) == (others, turn.thread) and (start or 0) <= lock.passed
            if meets and (turn.stop is None or turn.stop > lock.passed):
                return True
        reached[turn.thread] = turn.stop
        reached = dict(sorted(reached.items()))
    return False
