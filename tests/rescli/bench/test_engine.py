from __future__ import annotations

import gc
import random
from typing import TYPE_CHECKING

import pytest

from rescli.bench.compare import judge, paired_ratio
from rescli.bench.engine import Engine, is_tight
from rescli.bench.stats import summarise
from rescli.bench.stopwatch import ClockStopwatch
from rescli.bench.subject import Limits, Series, Subject, side_by_side
from tests.rescli.bench.paper import PaperClock, PaperExercise, engine, subject

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rescli.bench.result import PassName


def measured(
    clock: PaperClock, *exercises: PaperExercise, seconds: float = 10.0, at_least: float = 0.0
) -> tuple[Series, ...]:
    machine = engine(clock, [subject(exercise) for exercise in exercises], seconds=seconds, at_least=at_least)
    machine.open()
    machine.sample()
    return machine.series()


def noisy(around_s: float, seed: int = 0) -> Callable[[int], float]:
    rng = random.Random(seed)
    return lambda _call: around_s * rng.uniform(0.8, 1.2)


# Calibration


@pytest.mark.parametrize("call_s", [1e-7, 3e-6, 1e-4, 0.9e-3, 2e-3, 0.1])
def test_a_sample_takes_at_least_a_millisecond(call_s: float) -> None:
    clock = PaperClock()
    exercise = PaperExercise(clock, lambda _call: call_s)
    (series,) = measured(clock, exercise)
    assert series.iterations * call_s >= 1e-3
    # Not needlessly longer either.
    assert (series.iterations - 1) * call_s <= 1.5e-3


def test_a_known_duration_is_measured_within_three_percent() -> None:
    clock = PaperClock()
    (series,) = measured(clock, PaperExercise(clock, noisy(50e-6)))
    middle = sorted(series.samples_s)[len(series.samples_s) // 2]
    assert middle == pytest.approx(50e-6, rel=0.03)


def test_the_shortest_pass_of_an_exercise_decides_how_many_calls_make_a_sample() -> None:
    class TwoParts(PaperExercise):
        @property
        def parts(self) -> Mapping[PassName, tuple[int, ...]]:
            return {"forward": (0,), "step": (0, 1)}

        def run(self, iterations: int, mark: Callable[[], None]) -> None:
            mark()
            for _ in range(iterations):
                self.clock.seconds += 1e-5
                mark()
                self.clock.seconds += 1e-3
                mark()

    clock = PaperClock()
    exercise = TwoParts(clock, lambda _call: 0.0, period=2)
    machine = engine(clock, [Subject("step", ("forward", "step"), lambda: exercise)], seconds=100)
    machine.open()
    machine.sample()
    forward, step = machine.series()
    assert forward.iterations >= 100
    assert forward.samples_s[0] == pytest.approx(1e-5)
    assert step.samples_s[0] == pytest.approx(1.01e-3)


def test_one_hiccup_does_not_end_the_calibration() -> None:
    clock = PaperClock()
    # The fifth call, which calibration makes alone, takes as long as a sample must.
    exercise = PaperExercise(clock, lambda call: 2e-3 if call == 4 else 1e-5)
    (series,) = measured(clock, exercise)
    assert series.iterations >= 100


def test_a_machine_that_stalls_while_it_is_calibrated_does_not_make_short_samples() -> None:
    clock = PaperClock()
    exercise = PaperExercise(clock, lambda call: 2e-2 if call < 20 else 1e-5)
    (series,) = measured(clock, exercise)
    assert series.iterations >= 100
    assert series.samples_s == pytest.approx([1e-5] * len(series.samples_s))


def test_samples_that_are_too_short_stand_if_there_is_no_time_for_longer_ones() -> None:
    clock = PaperClock()
    exercise = PaperExercise(clock, lambda call: 2e-2 if call < 7 else 1e-5)
    (series,) = measured(clock, exercise, seconds=0.141)
    assert series.iterations == 1
    assert len(series.samples_s) >= 1


def test_a_clock_that_does_not_advance_cannot_calibrate_forever() -> None:
    clock = PaperClock()
    exercise = PaperExercise(clock, lambda _call: 0.0)
    machine = engine(clock, [subject(exercise)])
    machine.open()
    assert machine.series()[0].iterations == 1_000_000


# First call and warm-up


def test_the_first_call_is_timed_apart_and_in_no_sample() -> None:
    clock = PaperClock()
    exercise = PaperExercise(clock, lambda call: 0.7 if call == 0 else 1e-3)
    (series,) = measured(clock, exercise)
    assert series.first_call_s == pytest.approx(0.7)
    assert max(series.samples_s) == pytest.approx(1e-3)


def test_slow_calls_after_the_first_one_are_warm_up() -> None:
    clock = PaperClock()
    exercise = PaperExercise(clock, lambda call: 5e-2 if call < 4 else 1e-3)
    (series,) = measured(clock, exercise)
    assert max(series.samples_s) == pytest.approx(1e-3)
    assert exercise.blocks[:4] == [1, 1, 1, 1]


def cold_after_another(clock: PaperClock) -> list[PaperExercise]:
    """Two exercises whose first call after the other one's turn takes ten times as long."""
    latest: list[str] = [""]

    def call_of(name: str) -> Callable[[int], float]:
        def call_s(_call: int) -> float:
            cold, latest[0] = latest[0] != name, name
            return 1e-3 if cold else 1e-4

        return call_s

    names: tuple[PassName, ...] = ("inference", "forward")
    return [PaperExercise(clock, call_of(name), name=name) for name in names]


def test_the_cold_call_after_another_subjects_turn_is_in_no_sample() -> None:
    clock = PaperClock()
    for series in measured(clock, *cold_after_another(clock)):
        assert series.samples_s == pytest.approx([1e-4] * len(series.samples_s))


def test_without_a_lead_in_the_cold_call_would_be_in_every_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rescli.bench.engine._LEAD_IN_BELOW_S", 0)
    clock = PaperClock()
    for series in measured(clock, *cold_after_another(clock)):
        # All but those that follow the last turn of the round before.
        assert sorted(series.samples_s)[len(series.samples_s) // 2] > 1.5e-4


def test_a_long_sample_has_no_lead_in() -> None:
    clock = PaperClock()
    exercise = PaperExercise(clock, lambda _call: 0.05)
    (series,) = measured(clock, exercise)
    # First call, three of warm-up, one that calibration repeats.
    assert exercise.calls == len(series.samples_s) + 5


# Stopping


def test_sampling_stops_early_when_the_interval_is_tight() -> None:
    clock = PaperClock()
    (series,) = measured(clock, PaperExercise(clock, lambda _call: 1e-3))
    assert 30 <= len(series.samples_s) <= 40
    assert clock.seconds < 100.1


def test_sampling_goes_on_to_the_end_when_the_interval_stays_wide() -> None:
    clock = PaperClock()
    # Two-mode times: the middle of the distribution is empty, the median jumps.
    exercise = PaperExercise(clock, lambda call: 1e-3 if call // 2 % 2 else 2e-3)
    measured(clock, exercise, seconds=3)
    assert clock.seconds == pytest.approx(103, abs=5e-3)


def test_a_least_time_is_kept_even_if_the_interval_is_tight() -> None:
    clock = PaperClock()
    measured(clock, PaperExercise(clock, lambda _call: 1e-3), at_least=2)
    assert clock.seconds >= 102


def test_all_subjects_are_sampled_until_the_last_one_is_tight() -> None:
    clock = PaperClock()
    steady = PaperExercise(clock, lambda _call: 1e-3)
    wild = PaperExercise(clock, noisy(1e-3), name="forward")
    first, second = measured(clock, steady, wild)
    assert is_tight(second.samples_s, 0.01)
    assert abs(len(first.samples_s) - len(second.samples_s)) <= 1


def test_a_wide_interval_is_not_called_tight() -> None:
    assert not is_tight([1.0, 1.2] * 20, 0.01)
    assert not is_tight([1.0] * 5, 0.01)


def test_a_timer_with_two_modes_keeps_both_and_its_median_is_in_the_commoner_one() -> None:
    clock = PaperClock()
    modes = random.Random(0)
    two = PaperExercise(clock, lambda _call: 1e-3 if modes.random() < 0.6 else 2e-3)
    (series,) = measured(clock, two)
    found = summarise(series.samples_s)
    assert found.median_s == pytest.approx(1e-3)
    # Nothing is thrown away: the other mode is in the spread.
    assert found.iqr_s == pytest.approx(1e-3)
    assert sum(sample > 1.5e-3 for sample in series.samples_s) > 0.3 * len(series.samples_s)


# Interleaving


def taken_turns(seed: int) -> list[str]:
    clock = PaperClock()
    log: list[str] = []
    names: tuple[PassName, ...] = ("inference", "forward", "step")
    exercises = [PaperExercise(clock, lambda _call: 1e-3, name=name, log=log) for name in names]
    machine = engine(clock, [subject(exercise) for exercise in exercises], seed=seed)
    machine.open()
    log.clear()
    machine.sample()
    return log


def test_subjects_take_turns_in_a_new_random_order_each_round() -> None:
    # Each turn is a lead-in and a sample.
    log = taken_turns(seed=0)[::2]
    rounds = [tuple(log[place : place + 3]) for place in range(0, len(log), 3)]
    assert all(sorted(turn) == ["forward", "inference", "step"] for turn in rounds)
    assert len(set(rounds)) == 6


def test_the_order_is_decided_by_the_seed() -> None:
    assert taken_turns(seed=1) == taken_turns(seed=1)
    assert taken_turns(seed=1) != taken_turns(seed=2)


def total_ratio(first: Series, second: Series) -> float:
    return (sum(second.samples_s) / len(second.samples_s)) / (sum(first.samples_s) / len(first.samples_s))


def test_a_machine_that_drifts_drifts_for_all_subjects_alike() -> None:
    clock = PaperClock()

    def drifting(_call: int) -> float:
        return 1e-3 * (1 + (clock.seconds - 100) / 5)

    pair = (PaperExercise(clock, drifting), PaperExercise(clock, drifting, name="forward"))
    assert total_ratio(*measured(clock, *pair, at_least=5)) == pytest.approx(1, rel=0.01)
    # Timed one after the other, as it must not be, the second seems half as slow again.
    clock.seconds = 100
    (alone,) = measured(clock, PaperExercise(clock, drifting), at_least=2.5)
    (later,) = measured(clock, PaperExercise(clock, drifting), at_least=2.5)
    assert total_ratio(alone, later) > 1.2


# Budgets


def test_a_slow_block_ends_within_its_time_and_has_few_samples() -> None:
    clock = PaperClock()
    (series,) = measured(clock, PaperExercise(clock, lambda _call: 0.4), seconds=1)
    assert clock.seconds <= 101
    assert series.first_call_s == pytest.approx(0.4)
    assert len(series.samples_s) == 1


def test_a_second_subject_that_cannot_fit_is_not_begun() -> None:
    clock = PaperClock()
    slow = PaperExercise(clock, lambda _call: 0.4)
    other = PaperExercise(clock, lambda _call: 0.4, name="forward")
    first, second = measured(clock, slow, other, seconds=1)
    assert clock.seconds <= 101
    assert len(first.samples_s) == 1
    assert second == Series("forward", (), (), 0, None, None)
    assert other.calls == 0


@pytest.mark.parametrize("seconds", [0.05, 0.5, 2.0])
@pytest.mark.parametrize("call_s", [1e-5, 3e-3, 0.2])
def test_no_block_is_begun_that_cannot_end_in_time(seconds: float, call_s: float) -> None:
    clock = PaperClock()
    exercise = PaperExercise(clock, lambda call: call_s * (1 + call % 3 / 10))
    measured(clock, exercise, seconds=seconds)
    # The very first call cannot be foreseen; the rest can, to within what calls differ.
    assert clock.seconds <= 100 + max(seconds + 0.3 * call_s + 0.5e-3, call_s)


# Interruption


def test_an_interruption_keeps_the_samples_taken_so_far() -> None:
    clock = PaperClock()

    def call_s(call: int) -> float:
        if call == 50:
            raise KeyboardInterrupt
        return 2e-3 + call * 1e-4

    machine = engine(clock, [subject(PaperExercise(clock, call_s))])
    machine.open()
    with pytest.raises(KeyboardInterrupt):
        machine.sample()
    (series,) = machine.series()
    # First call, three of warm-up and one of calibration are in no sample, nor is each sample's lead-in.
    assert len(series.samples_s) == 22
    assert series.samples_s[-1] == pytest.approx(2e-3 + 48e-4)
    assert gc.isenabled()


# Failure


def test_a_failure_is_a_fact_and_the_others_go_on() -> None:
    clock = PaperClock()

    def breaks(call: int) -> float:
        if call == 0:
            raise RuntimeError("no such luck")
        return 1e-3

    recovered: list[bool] = []
    works = PaperExercise(clock, lambda _call: 1e-3, name="forward")
    subjects = [subject(PaperExercise(clock, breaks)), subject(works)]
    stopwatch = ClockStopwatch(clock)
    machine = Engine(subjects, stopwatch, Limits(110, 0), recover=lambda: recovered.append(True))
    machine.open()
    machine.sample()
    broken, whole = machine.series()
    assert broken.failure is not None
    assert (broken.failure.code, broken.failure.error) == ("failed", "RuntimeError")
    assert broken.failure.message == "no such luck"
    assert broken.samples_s == ()
    assert len(whole.samples_s) >= 30
    assert recovered == [True]


def test_an_allocation_that_fails_is_told_apart() -> None:
    clock = PaperClock()

    def breaks(_call: int) -> float:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.")

    (series,) = measured(clock, PaperExercise(clock, breaks))
    assert series.failure is not None
    assert series.failure.code == "out-of-memory"


def test_a_subject_that_cannot_be_built_fails_like_one_that_cannot_run() -> None:
    clock = PaperClock()

    def build() -> PaperExercise:
        raise MemoryError

    machine = engine(clock, [Subject("inference", ("inference",), build)])
    machine.open()
    machine.sample()
    assert [series.failure.code for series in machine.series() if series.failure] == ["out-of-memory"]


def test_what_was_sampled_before_a_failure_stands() -> None:
    clock = PaperClock()

    def breaks(call: int) -> float:
        if call == 20:
            raise RuntimeError("tired")
        return 1e-3

    (series,) = measured(clock, PaperExercise(clock, breaks))
    assert series.failure is not None
    assert len(series.samples_s) == 7


def test_what_can_be_known_without_the_part_that_fails_is_measured() -> None:
    clock = PaperClock()

    def breaks(_call: int) -> float:
        raise RuntimeError("not differentiable")

    forward = subject(PaperExercise(clock, lambda _call: 1e-3, name="forward"))
    step = Subject("step", ("forward", "backward", "step"), lambda: PaperExercise(clock, breaks), forward)
    machine = engine(clock, [step])
    machine.open()
    machine.sample()
    by_name = {series.pass_name: series for series in machine.series()}
    assert len(by_name["forward"].samples_s) >= 30
    assert by_name["forward"].failure is None
    assert [by_name[name].failure is not None for name in ("backward", "step")] == [True, True]


# Garbage


def test_no_garbage_is_collected_inside_a_block_and_collection_goes_on_after_it() -> None:
    clock = PaperClock()
    seen: set[bool] = set()

    def look(_call: int) -> float:
        seen.add(gc.isenabled())
        return 1e-3

    measured(clock, PaperExercise(clock, look))
    assert seen == {False}
    assert gc.isenabled()


# Variants


def variant(exercise: PaperExercise, label: str) -> Subject:
    return Subject(label, (exercise.name,), lambda: exercise, variant=label)


def test_samples_of_the_same_turn_are_pairs_and_calibration_is_in_none() -> None:
    clock = PaperClock()
    a, b = PaperExercise(clock, noisy(1e-3)), PaperExercise(clock, noisy(2e-3, seed=1))
    machine = engine(clock, [variant(a, "block"), variant(b, "other")], seconds=1)
    machine.open()
    machine.sample()
    of_a, of_b = machine.series()
    assert (of_a.variant, of_b.variant) == ("block", "other")
    assert (of_a.turns[0], of_b.turns[0]) == (None, None)
    first, second = side_by_side(of_a, of_b)
    # Whoever comes first in the last turn may be the only one for whom there was time.
    assert len(of_a.samples_s) - 2 <= len(first) == len(second) > 100
    assert first == list(of_a.samples_s[1 : len(first) + 1])
    assert second == list(of_b.samples_s[1 : len(second) + 1])


def test_a_drift_that_both_share_is_not_in_the_pairs() -> None:
    clock = PaperClock()

    def drifting(_call: int) -> float:
        return 1e-3 * (1 + (clock.seconds - 100))

    exercises = [PaperExercise(clock, drifting) for _ in range(2)]
    machine = engine(clock, [variant(exercises[0], "block"), variant(exercises[1], "same")], seconds=2)
    machine.open()
    machine.sample()
    a, b = machine.series()
    assert max(a.samples_s) > 1.5 * min(a.samples_s)
    found = paired_ratio(*side_by_side(a, b))
    assert found.ratio == pytest.approx(1, abs=0.005)
    assert judge(found) == "same"


def test_sampling_goes_on_until_the_ratio_is_known_too() -> None:
    # Each is steady but for a step that hits one of them: its own interval is tight, that of the ratio is not.
    def counts(unsteady: bool) -> int:
        clock = PaperClock()
        rng = random.Random(1)
        a = PaperExercise(clock, lambda _call: 1e-3 * rng.uniform(0.96, 1.04))
        b = PaperExercise(clock, lambda _call: 1e-3 * rng.uniform(0.96, 1.04))
        labels = ("block", "other") if unsteady else ("block", "block")
        machine = engine(clock, [variant(a, labels[0]), variant(b, labels[1])])
        machine.open()
        machine.sample()
        return len(machine.series()[0].samples_s)

    assert counts(unsteady=True) > counts(unsteady=False)


def test_a_variant_that_fails_does_not_keep_the_other_from_ending() -> None:
    clock = PaperClock()

    def breaks(call: int) -> float:
        if call == 50:
            raise ValueError("not today")
        return 1e-3

    exercises = [PaperExercise(clock, lambda _call: 1e-3), PaperExercise(clock, breaks)]
    machine = engine(clock, [variant(exercises[0], "block"), variant(exercises[1], "other")])
    machine.open()
    machine.sample()
    a, b = machine.series()
    assert a.failure is None
    assert b.failure is not None
    assert clock.seconds < 101
