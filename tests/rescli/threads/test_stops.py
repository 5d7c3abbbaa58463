from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescli.threads.result import Point
from rescli.threads.stops import choose_stops


def lines(writes: list[bool]) -> list[Point]:
    return [Point("line", "", "forward", "net.py", index, "", own) for index, own in enumerate(writes)]


def test_few_points_are_all_stops() -> None:
    assert choose_stops(lines([False, True, False]), 3) == (1, 2, 3)
    assert choose_stops([], 3) == ()


def test_of_many_those_around_a_line_that_writes_come_first() -> None:
    assert choose_stops(lines([False] * 4 + [True] + [False] * 5), 2) == (5, 6)
    assert choose_stops(lines([False] * 4 + [True] + [False] * 5), 4) == (3, 5, 6, 9)


def test_too_many_that_write_are_thinned_evenly() -> None:
    assert choose_stops(lines([True] * 100), 4) == (13, 38, 63, 88)


def test_a_write_in_the_last_line_has_nothing_behind_it() -> None:
    assert choose_stops(lines([False] * 3 + [True]), 1) == (4,)


@pytest.mark.parametrize("most", [1, 2, 7])
@given(writes=st.lists(st.booleans(), max_size=30))
def test_stops_are_points_in_order_and_no_more_than_asked_for(most: int, writes: list[bool]) -> None:
    stops = choose_stops(lines(writes), most)
    assert list(stops) == sorted(set(stops))
    assert len(stops) == min(most, len(writes))
    assert all(1 <= stop <= len(writes) for stop in stops)
