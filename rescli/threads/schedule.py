"""Schedules: in which order threads take turns, as data, as text, and all of them within a bound.

The text names the scenario, then the turns: ``shared:A3,B,A`` lets thread A run to its third point, then
B to its end, then A to its end. ``shared.lines:A3,B,A`` counts source lines instead of layers.
"""

from __future__ import annotations

import itertools
import math
import random
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rescli.errors import CommandLineError
from rescli.threads.limits import SCHEDULED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_THREADS = 8
LETTERS = "ABCDEFGH"
# Beyond this many the schedules are drawn at random instead of listed, which would take seconds.
LISTED = 5_000
_TURN = re.compile(r"([A-H])([1-9]\d*)?")
_LINES = ".lines"
_FORM = "for instance shared:A3,B,A: A runs to its point 3, then B to its end, then A to its end"


@dataclass(frozen=True, slots=True)
class Turn:
    """One thread's turn.

    Args:
        thread: The thread's index, 0 for A.
        stop: The thread's point, counted from 1, at which another thread goes on; None for its end.
    """

    thread: int
    stop: int | None = None

    def __str__(self) -> str:
        return f"{LETTERS[self.thread]}{'' if self.stop is None else self.stop}"


@dataclass(frozen=True, slots=True)
class Schedule:
    """The turns of all threads, in order; the last turn of each thread goes to its end.

    Args:
        turns: Who runs how far.
        lines: Whether the points are those between source lines, not those of layers.

    Example:
        >>> str(Schedule((Turn(0, 3), Turn(1), Turn(0))))
        'A3,B,A'
    """

    turns: tuple[Turn, ...]
    lines: bool = False

    @property
    def preemptions(self) -> int:
        """How often a thread is interrupted before its end."""
        return sum(turn.stop is not None for turn in self.turns)

    @property
    def threads(self) -> int:
        """How many threads take part."""
        return len({turn.thread for turn in self.turns})

    def written(self, scenario: str) -> str:
        """Write the schedule as ``--replay`` takes it.

        Args:
            scenario: The scenario that it belongs to.

        Example:
            >>> Schedule((Turn(0, 3), Turn(1), Turn(0)), lines=True).written("shared")
            'shared.lines:A3,B,A'
        """
        return f"{scenario}{_LINES if self.lines else ''}:{self}"

    def at(self, stops: Sequence[Sequence[int]], *, lines: bool = False) -> Schedule:
        """Move each stop at point ``n`` of a thread to the ``n``-th of the points chosen for it.

        Args:
            stops: The points that were chosen for each thread, in order.
            lines: Whether they lie between source lines.

        Example:
            >>> str(Schedule((Turn(0, 2), Turn(1), Turn(0))).at([(10, 20, 30), (5,)]))
            'A20,B,A'
        """
        return Schedule(
            tuple(
                turn if turn.stop is None else Turn(turn.thread, stops[turn.thread][turn.stop - 1])
                for turn in self.turns
            ),
            lines,
        )

    def __str__(self) -> str:
        return ",".join(str(turn) for turn in self.turns)


def parse_schedule(text: str, given: str = "") -> tuple[str, Schedule]:
    """Read a scenario's name and a schedule, as a failure prints them.

    Args:
        text: ``SCENARIO:TURN,TURN,...``.
        given: How errors quote it; empty for ``--replay TEXT``.

    Raises:
        CommandLineError: The text has another form, its scenario has no schedules, or its turns cannot all be
            taken.

    Example:
        >>> scenario, schedule = parse_schedule("replicas:A3,B,A")
        >>> scenario, schedule.preemptions
        ('replicas', 1)
    """
    head, colon, tail = text.strip().partition(":")
    scenario = head.removesuffix(_LINES)
    given = given or f"--replay {text}"
    if colon and scenario and scenario not in SCHEDULED:
        raise CommandLineError(
            f"{given}: {scenario} is no scenario with schedules",
            hint=f"one of {', '.join(SCHEDULED)}",
        )
    matches = [_TURN.fullmatch(part.strip()) for part in tail.split(",")]
    turns = tuple(
        Turn(LETTERS.index(match[1]), int(match[2]) if match[2] else None)
        for match in matches
        if match is not None
    )
    if not scenario or not colon or len(turns) < len(matches):
        raise CommandLineError(f"{given}: this is no schedule", hint=_FORM)
    fault = _fault(turns)
    if fault:
        raise CommandLineError(f"{given}: {fault}", hint=_FORM)
    return scenario, Schedule(turns, lines=head != scenario)


def _fault(turns: Sequence[Turn]) -> str:
    """Say why these turns cannot be taken one after the other, or nothing."""
    reached: dict[int, int | None] = {}
    for before, turn in itertools.pairwise((None, *turns)):
        letter = LETTERS[turn.thread] if turn else ""
        if turn is None:
            continue
        if before is not None and before.thread == turn.thread:
            return f"thread {letter} takes two turns in a row"
        last = reached.get(turn.thread, 0)
        if last is None:
            return f"thread {letter} runs again after its end"
        if turn.stop is not None and turn.stop <= last:
            return f"thread {letter} would have to go back from point {last} to {turn.stop}"
        reached[turn.thread] = turn.stop
    unfinished = [LETTERS[thread] for thread, stop in sorted(reached.items()) if stop is not None]
    if unfinished:
        return f"thread {unfinished[0]} never runs to its end"
    if sorted(reached) != list(range(len(reached))) or len(reached) < 2:
        return "there must be at least the threads A and B, without a gap"
    return ""


def schedules_within(points: Sequence[int], preemptions: int) -> Iterator[Schedule]:
    """List every schedule with at most so many preemptions, those with fewer first.

    Args:
        points: How many points each thread passes.
        preemptions: The bound.

    Example:
        >>> [str(schedule) for schedule in schedules_within((1, 1), 1)]
        ['A,B', 'B,A', 'A1,B,A', 'B1,A,B']
    """
    for exactly in range(preemptions + 1):
        yield from _with_exactly(points, exactly)


def _with_exactly(points: Sequence[int], preemptions: int) -> Iterator[Schedule]:
    """List every schedule with exactly so many preemptions."""
    unfinished = dict.fromkeys(range(len(points)), 0)
    for turns in _turns(points, unfinished, preemptions, None):
        yield Schedule(turns)


def _turns(
    points: Sequence[int], unfinished: dict[int, int], preemptions: int, last: int | None
) -> Iterator[tuple[Turn, ...]]:
    """Continue a schedule that stands where ``unfinished`` says, with exactly so many more preemptions."""
    if not unfinished:
        if preemptions == 0:
            yield ()
        return
    if preemptions and len(unfinished) == 1:
        return  # nobody is left who could interrupt
    for thread, reached in unfinished.items():
        if thread == last:
            continue
        others = {other: stop for other, stop in unfinished.items() if other != thread}
        for rest in _turns(points, others, preemptions, None):
            yield (Turn(thread), *rest)
        if preemptions and others:
            for stop in range(reached + 1, points[thread] + 1):
                for rest in _turns(points, {**unfinished, thread: stop}, preemptions - 1, thread):
                    yield (Turn(thread, stop), *rest)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which schedules are to be tried.

    Args:
        schedules: Those with fewer preemptions first.
        total: How many there are within the bound, or None where they are too many to count.
    """

    schedules: tuple[Schedule, ...]
    total: int | None

    def at(self, stops: Sequence[Sequence[int]], *, lines: bool = False) -> Selection:
        """Move the stops to those of each thread's points that were chosen for it.

        Args:
            stops: For each thread the points at which it may be interrupted, in order: a stop at point ``n``
                becomes one at the ``n``-th of them.
            lines: Whether they lie between source lines.
        """
        return Selection(tuple(schedule.at(stops, lines=lines) for schedule in self.schedules), self.total)


def select_schedules(points: Sequence[int], preemptions: int, limit: int, seed: int) -> Selection:
    """Take every schedule within the bound or, where those are too many, the first ones of a seed.

    Where there are too many, those with fewer preemptions come first: each number of preemptions gets half
    of the room that is left, or less if it has fewer, and the highest number gets the rest. Many threads have
    many orders without a preemption, of which few say more than others: of these there are no more than two
    for each thread. Of the others those come first whose first turn is interrupted: a thread that runs
    to its end before them has mostly made whatever is made once. A larger ``limit`` tries what a smaller
    one tried, and more.

    Args:
        points: How many points each thread passes.
        preemptions: The most preemptions of one schedule.
        limit: The most schedules to take.
        seed: Decides which ones are taken.
    """
    chosen: list[Schedule] = []
    total: int | None = 0
    all_fit = _fits(points, preemptions, limit)
    for exactly in range(preemptions + 1):
        listed = list(itertools.islice(_with_exactly(points, exactly), LISTED + 1))
        left = limit - len(chosen)
        room = left if all_fit or exactly == preemptions else left - left // 2
        if not (all_fit or exactly):
            room = min(room, 2 * len(points))
        # A generator of its own for each number, so that none depends on how much room another had.
        generator = random.Random(f"{seed}:{exactly}")  # noqa: S311 - chooses schedules, keeps no secret
        if len(listed) > LISTED:
            chosen += _drawn(points, exactly, room, generator)
            total = None
        else:
            if len(listed) > room:
                generator.shuffle(listed)
                listed.sort(key=lambda schedule: schedule.turns[0].stop is None)
            chosen += listed[:room]
            total = None if total is None else total + len(listed)
    if total is None and len(points) == 2:
        total = _count_of_two(points, preemptions)
    return Selection(tuple(chosen), total)


def _fits(points: Sequence[int], preemptions: int, limit: int) -> bool:
    """Tell whether all schedules within the bound can be taken."""
    return next(itertools.islice(schedules_within(points, preemptions), limit, None), None) is None


def _count_of_two(points: Sequence[int], preemptions: int) -> int:
    """Count the schedules of two threads: interrupted ones alternate, so the stops can be chosen freely."""
    return sum(
        math.comb(one, exactly - exactly // 2) * math.comb(other, exactly // 2)
        for exactly in range(preemptions + 1)
        for one, other in (tuple(points), tuple(reversed(points)))
    )


def _drawn(points: Sequence[int], preemptions: int, limit: int, generator: random.Random) -> list[Schedule]:
    """Draw different schedules with exactly so many preemptions at random."""
    chosen: dict[Schedule, None] = {}
    tries = 0
    while len(chosen) < limit and tries < 50 * limit:
        tries += 1
        schedule = _one_drawn(points, preemptions, generator)
        if schedule.preemptions == preemptions:
            chosen.setdefault(schedule)
    return list(chosen)


def _one_drawn(points: Sequence[int], preemptions: int, generator: random.Random) -> Schedule:
    """Choose where threads are interrupted, then who goes on each time."""
    stops: dict[int, list[int]] = {thread: [] for thread in range(len(points))}
    places = [(thread, stop) for thread, count in enumerate(points) for stop in range(1, count + 1)]
    for thread, stop in generator.sample(places, min(preemptions, len(places))):
        stops[thread].append(stop)
    for own in stops.values():
        own.sort(reverse=True)
    turns: list[Turn] = []
    unfinished = set(stops)
    while unfinished:
        interrupted = turns[-1].thread if turns and turns[-1].stop is not None else None
        thread = generator.choice(sorted(unfinished - {interrupted}))
        alone = len(unfinished) == 1
        turns.append(Turn(thread, stops[thread].pop() if stops[thread] and not alone else None))
        if turns[-1].stop is None:
            unfinished.discard(thread)
    return Schedule(tuple(turns))
