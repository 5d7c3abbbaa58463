from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescli.errors import CommandLineError
from rescli.threads.schedule import (
    Schedule,
    Turn,
    _count_of_two,
    parse_schedule,
    schedules_within,
    select_schedules,
)

# How long a busy machine takes for an example says nothing.
UNTIMED = settings(deadline=None)


def texts(points: tuple[int, ...], preemptions: int) -> list[str]:
    return [str(schedule) for schedule in schedules_within(points, preemptions)]


def test_without_preemptions_the_schedules_are_the_orders_of_the_threads() -> None:
    assert texts((5, 5), 0) == ["A,B", "B,A"]
    assert len(texts((5, 5, 5), 0)) == 6


def test_every_schedule_of_two_threads_with_two_points_is_listed_once() -> None:
    assert texts((2, 2), 2) == [
        *("A,B", "B,A"),
        *("A1,B,A", "A2,B,A", "B1,A,B", "B2,A,B"),
        *("A1,B1,A,B", "A1,B2,A,B", "A2,B1,A,B", "A2,B2,A,B"),
        *("B1,A1,B,A", "B1,A2,B,A", "B2,A1,B,A", "B2,A2,B,A"),
    ]


def interleavings(points: tuple[int, ...], preemptions: int) -> set[tuple[int, ...]]:
    """List by brute force the orders of segments, and keep those with few enough interruptions."""
    found: set[tuple[int, ...]] = set()

    def extend(order: tuple[int, ...], left: tuple[int, ...]) -> None:
        if not any(left):
            found.add(order)
            return
        for thread, segments in enumerate(left):
            if segments:
                rest = tuple(n - (i == thread) for i, n in enumerate(left))
                extend((*order, thread), rest)

    extend((), tuple(n + 1 for n in points))
    return {order for order in found if interruptions(order) <= preemptions}


def interruptions(order: tuple[int, ...]) -> int:
    return sum(
        one != other and one in order[place + 2 :] for place, (one, other) in enumerate(pairwise(order))
    )


def segments(schedule: Schedule, points: tuple[int, ...]) -> tuple[int, ...]:
    """Spell a schedule as the thread of each segment between two points."""
    done = [0] * len(points)
    order: list[int] = []
    for turn in schedule.turns:
        end = points[turn.thread] + 1 if turn.stop is None else turn.stop
        order += [turn.thread] * (end - done[turn.thread])
        done[turn.thread] = end
    return tuple(order)


@settings(UNTIMED, max_examples=50)
@given(
    points=st.lists(st.integers(0, 2), min_size=2, max_size=3).map(tuple),
    preemptions=st.integers(0, 3),
)
def test_the_schedules_are_those_that_brute_force_finds(points: tuple[int, ...], preemptions: int) -> None:
    found = [segments(schedule, points) for schedule in schedules_within(points, preemptions)]
    assert len(found) == len(set(found))
    assert set(found) == interleavings(points, preemptions)


@settings(UNTIMED)
@given(points=st.tuples(st.integers(0, 6), st.integers(0, 6)), preemptions=st.integers(0, 4))
def test_the_schedules_of_two_threads_are_counted_without_listing_them(
    points: tuple[int, int], preemptions: int
) -> None:
    assert _count_of_two(points, preemptions) == len(texts(points, preemptions))


def test_two_preemptions_of_a_residual_block_give_114_schedules() -> None:
    # 2 orders, 2 x 7 single stops, 2 x 7 x 7 pairs of stops.
    assert len(texts((7, 7), 2)) == 2 + 14 + 98


@settings(UNTIMED)
@given(points=st.lists(st.integers(0, 4), min_size=2, max_size=4).map(tuple), preemptions=st.integers(0, 2))
def test_a_schedule_is_read_as_it_was_written(points: tuple[int, ...], preemptions: int) -> None:
    for schedule in list(schedules_within(points, preemptions))[:50]:
        assert parse_schedule(f"shared:{schedule}") == ("shared", schedule)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A3,B,A", "this is no schedule"),
        ("shared:", "this is no schedule"),
        (":A,B", "this is no schedule"),
        ("shared:A0,B,A", "this is no schedule"),
        ("shared:A3;B;A", "this is no schedule"),
        ("shared:I,B", "this is no schedule"),
        ("shared:A3,A,B", "thread A takes two turns in a row"),
        ("shared:A,B,A", "thread A runs again after its end"),
        ("shared:A3,B1,A2,B,A", "thread A would have to go back from point 3 to 2"),
        ("shared:A3,B", "thread A never runs to its end"),
        ("shared:A", "there must be at least the threads A and B, without a gap"),
        ("shared:A,C", "there must be at least the threads A and B, without a gap"),
    ],
)
def test_a_schedule_that_cannot_be_followed_is_refused(text: str, message: str) -> None:
    with pytest.raises(CommandLineError) as caught:
        parse_schedule(text)
    assert str(caught.value) == f"--replay {text}: {message}"
    assert "A runs to its point 3" in caught.value.hint


def test_all_schedules_are_taken_if_they_are_few_enough() -> None:
    selection = select_schedules((7, 7), 2, limit=114, seed=0)
    assert selection.total == 114
    assert list(map(str, selection.schedules)) == texts((7, 7), 2)


def test_too_many_schedules_are_chosen_by_seed_and_counted() -> None:
    selection = select_schedules((7, 7), 2, limit=50, seed=0)
    assert selection.total == 114
    assert len(set(selection.schedules)) == 50
    assert set(map(str, selection.schedules)) <= set(texts((7, 7), 2))
    assert selection == select_schedules((7, 7), 2, limit=50, seed=0)
    assert selection != select_schedules((7, 7), 2, limit=50, seed=1)


def test_a_larger_limit_tries_what_a_smaller_one_tried() -> None:
    small = select_schedules((7, 7), 2, limit=30, seed=3).schedules
    large = select_schedules((7, 7), 2, limit=60, seed=3).schedules
    assert set(small) <= set(large)


def test_schedules_with_fewer_preemptions_come_first() -> None:
    preemptions = [schedule.preemptions for schedule in select_schedules((7, 7), 2, 50, 0).schedules]
    assert preemptions == sorted(preemptions)
    # All without and with one; the room that is left goes to those with two.
    assert [preemptions.count(number) for number in range(3)] == [2, 14, 34]


def test_schedules_beyond_any_list_are_drawn_and_can_be_followed() -> None:
    points = (2_000, 1_900)
    selection = select_schedules(points, 2, limit=200, seed=0)
    assert selection.total == 2 + 2_000 + 1_900 + 2 * 2_000 * 1_900
    assert len(set(selection.schedules)) == 200
    for schedule in selection.schedules:
        assert parse_schedule(f"shared:{schedule}") == ("shared", schedule)
        assert schedule.preemptions <= 2
        assert all(turn.stop is None or turn.stop <= points[turn.thread] for turn in schedule.turns)
    stops = [turn.stop for schedule in selection.schedules for turn in schedule.turns if turn.stop]
    assert min(stops) < 200
    assert max(stops) > 1_800


def test_eight_threads_leave_room_for_schedules_with_preemptions() -> None:
    selection = select_schedules((3,) * 8, 2, limit=100, seed=0)
    assert selection.total is None
    assert len(selection.schedules) == 100
    counts = [sum(schedule.preemptions == n for schedule in selection.schedules) for n in range(3)]
    assert counts == [16, 42, 42]
    assert {schedule.threads for schedule in selection.schedules} == {8}


def test_of_many_threads_those_schedules_come_first_whose_first_turn_is_interrupted() -> None:
    selection = select_schedules((5,) * 4, 2, limit=50, seed=0)
    interrupted = [schedule for schedule in selection.schedules if schedule.preemptions == 1]
    assert len(interrupted) == 21
    assert all(schedule.turns[0].stop is not None for schedule in interrupted)
    # At each of its five points some thread stands.
    assert {schedule.turns[0].stop for schedule in interrupted} == {1, 2, 3, 4, 5}


def test_a_turn_says_where_it_ends() -> None:
    assert str(Schedule((Turn(0, 3), Turn(1, 12), Turn(0), Turn(1)))) == "A3,B12,A,B"
