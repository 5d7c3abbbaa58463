from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from rescli.bench.engine import Engine
from rescli.bench.failure import FailedAloneError, FailedError, Failure
from rescli.bench.group_stopwatch import GroupStopwatch
from rescli.bench.idle import Idle
from rescli.bench.stopwatch import ClockStopwatch
from rescli.bench.subject import Limits, Series, Subject
from tests.rescli.bench.paper import PaperClock, PaperExercise, subject
from tests.rescli.bench.ranks import in_ranks

if TYPE_CHECKING:
    from rescli.bench.peers import Peers

SHORT = timedelta(milliseconds=50)


def stopwatch_of(peers: Peers, clock: PaperClock | None = None) -> GroupStopwatch:
    return GroupStopwatch(ClockStopwatch(clock or PaperClock()), peers, patience=SHORT)


def test_the_slowest_process_counts_and_all_know_it() -> None:
    def lap(peers: Peers) -> tuple[float, float]:
        clock = PaperClock()
        exercise = PaperExercise(clock, lambda _call: [3e-3, 7e-3][peers.place.rank])
        found = stopwatch_of(peers, clock).time(exercise, 2)
        return found.totals_s["inference"], found.taken_s

    for total_s, taken_s in in_ranks(lap):
        assert total_s == pytest.approx(14e-3)
        assert taken_s == pytest.approx(14e-3)


def test_the_clock_is_that_of_the_first_process() -> None:
    def look(peers: Peers) -> float:
        clock = PaperClock()
        clock.seconds = 100.0 + 50 * peers.place.rank
        stopwatch = stopwatch_of(peers, clock)
        stopwatch.gather(lambda: None)
        return stopwatch.now_s()

    assert in_ranks(look) == [100.0, 100.0]


def test_results_come_from_all_in_order() -> None:
    assert in_ranks(lambda peers: stopwatch_of(peers).gather(lambda: peers.place.rank)) == [[0, 1], [0, 1]]


def test_a_failure_in_one_process_is_raised_in_all_and_they_go_on() -> None:
    def work(peers: Peers) -> tuple[Failure, list[int]]:
        stopwatch = stopwatch_of(peers)

        def fails_in_the_second() -> None:
            if peers.place.rank:
                raise ValueError("only here")

        with pytest.raises(FailedError, match="ValueError: only here") as caught:
            stopwatch.gather(fails_in_the_second)
        return caught.value.failure, stopwatch.gather(lambda: 1)

    first, second = in_ranks(work)
    assert first == second
    assert (first[0].error, first[1]) == ("ValueError", [1, 1])
    assert "test_group_stopwatch.py" in first[0].trace


def test_a_process_that_fails_while_the_others_are_stuck_does_not_wait_for_them() -> None:
    def work(peers: Peers) -> str:
        if peers.place.rank == 0:
            return "stuck"  # as in a collective operation that waits for the other
        with pytest.raises(FailedAloneError) as caught:
            stopwatch_of(peers).gather(lambda: 1 // 0)
        return caught.value.failure.error

    assert in_ranks(work) == ["stuck", "ZeroDivisionError"]


def test_ctrl_c_in_one_process_ends_all_at_the_same_point() -> None:
    def work(peers: Peers) -> int:
        pressed = [False]
        stopwatch = GroupStopwatch(ClockStopwatch(PaperClock()), peers, lambda: pressed[0])
        for number in range(10):
            pressed[0] = number == 3 and peers.place.rank == 1
            try:
                stopwatch.gather(lambda: None)
            except KeyboardInterrupt:
                return number
        return -1

    assert in_ranks(work) == [3, 3]


def test_engines_of_a_group_take_the_same_decisions_though_their_clocks_differ() -> None:
    def measured(peers: Peers) -> tuple[Series, ...]:
        clock = PaperClock()
        clock.seconds = 100.0 + 1000 * peers.place.rank
        uneven = PaperExercise(clock, lambda call: 1e-4 * (1 + (call + peers.place.rank) % 3))
        breaks = PaperExercise(clock, lambda call: 1 // (40 * peers.place.rank - call), name="forward")
        stopwatch = stopwatch_of(peers, clock)
        stopwatch.gather(lambda: None)
        machine = Engine(
            [subject(uneven), subject(breaks)], stopwatch, Limits(stopwatch.now_s() + 0.5, 0.0), seed=3
        )
        machine.open()
        machine.sample()
        return machine.series()

    first, second = in_ranks(measured)
    assert first == second
    inference, forward = first
    assert len(inference.samples_s) > 30
    assert forward.failure is not None
    assert forward.failure.error == "ZeroDivisionError"


def test_without_agreement_they_would_not() -> None:
    # The twin of the test above: on clocks of their own the same two engines do different things.
    def measured(rank: int) -> tuple[Series, ...]:
        clock = PaperClock()
        uneven = PaperExercise(clock, lambda call: 1e-4 * (1 + (call + rank) % 3))
        machine = Engine([subject(uneven)], ClockStopwatch(clock), Limits(clock.now_s() + 0.5, 0.0), seed=3)
        machine.open()
        machine.sample()
        return machine.series()

    assert measured(0) != measured(1)


def test_a_process_that_is_idle_meanwhile_takes_no_time() -> None:
    def measured(peers: Peers) -> tuple[Series, ...]:
        clock = PaperClock()
        exercise = PaperExercise(clock, lambda _call: 2e-3)
        alone = Subject(
            "alone", ("inference",), lambda: Idle(["inference"]) if peers.place.rank else exercise
        )
        stopwatch = stopwatch_of(peers, clock)
        machine = Engine([alone], stopwatch, Limits(200.0, 0.0))
        machine.open()
        machine.sample()
        return machine.series()

    first, second = in_ranks(measured)
    assert first == second
    assert first[0].samples_s == pytest.approx([2e-3] * len(first[0].samples_s))
