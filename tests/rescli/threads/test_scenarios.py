from __future__ import annotations

import random
import sys
import threading
import time
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn

from rescli.errors import CommandLineError
from rescli.threads.limits import SCENARIOS
from rescli.threads.scenarios import SingleThreadError, check_block
from rescli.threads.schedule import parse_schedule
from rescli.threads.state import changed_names, take_snapshot
from tests.rescli.threads.planted import (
    LAYERS,
    CachesShape,
    Counts,
    Deadlocks,
    KeepsByName,
    KeepsInput,
    KeepsMean,
    Locks,
    PaperBlock,
    RemembersCalls,
    RunsLayersInThreads,
    ScalesGradient,
    TwoLayers,
    Uncopyable,
    check,
    example,
    replay,
)

if TYPE_CHECKING:
    from collections.abc import Callable

IMPATIENT = replace(LAYERS, patience_s=0.1)
RACES = [
    (KeepsInput, "shared"),
    (KeepsMean, "shared"),
    (KeepsByName, "shared"),
    (CachesShape, "shared"),
    (ScalesGradient, "shared"),
    (KeepsByName, "replicas"),
]


@pytest.mark.parametrize(("make", "scenario"), RACES)
def test_a_planted_race_is_found_and_fails_in_every_replay(
    make: Callable[[], nn.Module], scenario: str
) -> None:
    module = make()
    found = check(module, scenario)
    assert found.status == "fail"
    assert 0 < found.wrong < found.runs == found.schedules == 62
    assert found.schedule is not None
    assert parse_schedule(found.schedule)[1].preemptions == 1
    assert found.failure is not None
    for _ in range(5):
        again = replay(module, found.schedule)
        assert (again.status, again.runs, again.wrong) == ("fail", 1, 1)
        assert (again.schedule, again.bound, again.failure) == (found.schedule, 1, found.failure)


@pytest.mark.parametrize(("make", "scenario"), RACES)
def test_without_preemptions_the_same_race_is_not_found(make: Callable[[], nn.Module], scenario: str) -> None:
    found = check(make(), scenario, replace(LAYERS, preemptions=0))
    assert (found.status, found.runs, found.wrong, found.bound) == ("pass", 2, 0, 0)
    assert found.detail == "all 2 schedules right (2 threads, 5 points each, at most 0 preemptions)"


@pytest.mark.parametrize("preemptions", [1, 2])
def test_with_one_preemption_or_two_it_is(preemptions: int) -> None:
    found = check(KeepsInput(), "shared", replace(LAYERS, preemptions=preemptions))
    assert (found.status, found.bound) == ("fail", preemptions)


@pytest.mark.parametrize("make", [KeepsInput, KeepsMean, CachesShape, ScalesGradient])
def test_what_is_written_to_the_replica_itself_is_no_race_of_replicas(make: Callable[[], nn.Module]) -> None:
    assert check(make(), "replicas").status == "pass"


@pytest.mark.parametrize("scenario", ["shared", "replicas"])
@pytest.mark.parametrize(
    "module",
    [
        Counts(),
        nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Dropout(), nn.LayerNorm(4)).eval(),
        nn.Sequential(nn.Dropout(), nn.Linear(4, 4), nn.BatchNorm1d(4)),
    ],
)
def test_a_harmless_module_passes_with_all_of_its_schedules(module: nn.Module, scenario: str) -> None:
    found = check(module, scenario, replace(LAYERS, schedules=500))
    assert (found.status, found.wrong, found.failure) == ("pass", 0, None)
    assert found.points is not None
    assert found.runs == found.schedules == 2 + 2 * found.points + 2 * found.points**2
    assert found.detail == (
        f"all {found.runs} schedules right (2 threads, {found.points} points each, at most 2 preemptions)"
    )


def test_a_failure_says_what_is_wrong_and_where_the_threads_stood() -> None:
    found = check(KeepsMean(), "shared")
    assert found.failure is not None
    wrong = [(value.thread, value.value) for value in found.failure.wrong]
    # The weights are not among them: what is added at the end does not reach them.
    assert wrong == [("A", "output"), ("A", "gradient of input 0")]
    assert found.detail.startswith("thread A: output is ")
    assert "all 62 schedules tried, 48 wrong" in found.detail
    assert found.detail.endswith("run again 3 times, it failed 3 times")
    assert found.schedule == "shared:A1,B,A"
    steps = [
        (step.thread, step.point.event, step.point.layer) if step.point else (step.thread, "end", "")
        for step in found.failure.steps
    ]
    rest = [("entry", "second Linear"), ("exit", "second Linear"), ("exit", "KeepsMean"), ("end", "")]
    whole = [("entry", "first Linear"), ("exit", "first Linear"), *rest]
    assert steps == [
        ("A", *whole[0]),
        *(("B", *step) for step in whole),
        *(("A", *step) for step in whole[1:]),
    ]
    assert [step.hands_over for step in found.failure.steps] == [True, *[False] * 11]


def test_a_fault_in_the_gradients_alone_is_found() -> None:
    found = check(ScalesGradient(), "shared")
    assert found.failure is not None
    assert {value.value for value in found.failure.wrong} == {
        "gradient of input 0",
        *(f"gradient of {layer}.{name}" for layer in ("first", "second") for name in ("weight", "bias")),
    }


def test_an_exception_of_one_thread_is_reported_and_the_other_compared() -> None:
    found = check(KeepsInput(), "shared")
    assert found.failure is not None
    (wrong,) = found.failure.wrong
    assert (wrong.thread, wrong.value, wrong.expected) == ("A", "exception", "no exception")
    assert wrong.found.startswith(
        "RuntimeError: The size of tensor a (3) must match the size of tensor b (4)"
    )
    assert "(planted.py:" in wrong.found


def test_a_right_lock_stops_nobody_and_passes() -> None:
    found = check(Locks(), "shared", IMPATIENT)
    assert (found.status, found.wrong) == ("pass", 0)
    assert 0 < found.runs < 62
    assert f"{62 - found.runs} cannot be followed: a thread waits" in found.detail


def test_a_lock_that_is_no_attribute_of_the_module_hangs_nobody_either() -> None:
    lock = threading.Lock()

    class Guarded(TwoLayers):
        def forward(self, x: Tensor) -> Tensor:
            with lock:
                self.kept = x
                branch: Tensor = self.second(self.first(x))
                return branch + self.kept

    found = check(Guarded(), "shared", replace(IMPATIENT, schedules=6))
    assert (found.status, found.runs) == ("skip", 2)
    assert found.detail.startswith("no thread can be interrupted: ")
    assert "4 cannot be followed: a thread waits, as for a lock that the other one holds" in found.detail


def test_the_same_module_without_its_lock_fails() -> None:
    class Unlocked(Locks):
        def forward(self, x: Tensor) -> Tensor:
            hidden: Tensor = self.first(x)
            self.kept = x
            branch: Tensor = self.second(hidden)
            return branch + self.kept

    assert check(Unlocked(), "shared", IMPATIENT).status == "fail"


def test_a_deadlock_is_left_behind_and_skipped_with_its_reason() -> None:
    found = check(Deadlocks(), "shared", IMPATIENT)
    assert found.status == "skip"
    assert found.detail.startswith(
        "the threads did not end, as if each waited for a lock that another one holds; before that, "
    )


def test_a_result_that_depends_on_earlier_calls_fails_without_a_hand_over() -> None:
    found = check(RemembersCalls(), "shared")
    assert (found.status, found.schedule) == ("fail", "shared:A,B")
    assert "without a hand-over: the result depends on the calls before it" in found.detail


def test_a_module_that_refuses_to_be_copied_is_skipped_with_its_reason() -> None:
    results = list(check_block(PaperBlock(Uncopyable()), list(SCENARIOS), LAYERS))
    assert [result.status for result in results] == ["skip"] * len(SCENARIOS)
    assert results[0].detail == (
        "the module cannot be copied: TypeError: cannot pickle 'generator' object (copy.py:161)"
        if sys.version_info[:2] == (3, 11)
        else results[0].detail
    )
    assert results[0].detail.startswith(
        "the module cannot be copied: TypeError: cannot pickle 'generator' object"
    )


def test_a_compiled_part_is_refused_with_the_reason() -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    # What Module.compile() leaves on a module, without the seconds that it takes.
    module[1]._compiled_call_impl = lambda x: x
    found = check(module, "shared")
    assert found.status == "skip"
    assert found.detail.startswith("1 (ReLU) is compiled, and PyTorch does not promise")


def test_a_module_that_torch_compile_wrapped_is_refused_as_well() -> None:
    found = check(torch.compile(nn.Linear(4, 4), backend="eager"), "shared")  # type: ignore[arg-type] # a module comes back
    assert found.status == "skip"
    assert found.detail.startswith("the module is compiled")


def test_a_module_that_gives_other_values_each_time_is_not_compared() -> None:
    class Noisy(TwoLayers):
        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.second(self.first(x))
            return out * random.random()

    found = check(Noisy(), "shared")
    assert (found.status, found.detail) == (
        "skip",
        "nothing to compare with: the same call gives other values each time",
    )


def test_dropout_draws_the_same_numbers_in_every_schedule() -> None:
    found = check(nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.Linear(4, 4), nn.Dropout()), "shared")
    assert found.status == "pass"
    assert "eval" not in found.detail


def test_free_threads_share_a_generator_so_dropout_is_stressed_in_eval_mode() -> None:
    found = check(nn.Sequential(nn.Linear(4, 4), nn.Dropout()), "stress")
    assert found.status == "pass"
    assert found.detail.endswith(
        "no proof; in eval mode, since in its own mode it draws random numbers, "
        "for which free threads share one generator"
    )


def test_a_module_that_changes_with_each_training_call_is_checked_in_eval_mode() -> None:
    torch.manual_seed(0)  # with some weights the norm is found at once, and nothing changes any more
    module = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4))
    found = check(nn.Sequential(module, nn.ReLU()), "shared")
    assert found.status == "pass"
    assert found.detail.endswith(
        "in eval mode, since in its own mode the result of one call depends on the calls before it"
    )


def test_a_module_that_calls_no_layer_is_not_said_to_pass() -> None:
    class Bare(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            self.kept = x
            return x * 2 + self.kept

    found = check(Bare(), "shared")
    assert (found.status, found.points) == ("skip", 1)
    assert found.detail.startswith(
        "no layer runs in the thread that calls forward, so no thread can be interrupted within it: "
    )


@pytest.mark.parametrize("scenario", ["shared", "nested", "exception"])
def test_layers_that_run_in_threads_of_the_module_itself_are_not_said_to_be_missing(scenario: str) -> None:
    found = check(RunsLayersInThreads(), scenario)
    assert found.status == "skip"
    assert found.detail.startswith("no layer runs in the thread that calls forward")


def test_lazy_layers_are_sized_before_they_are_replicated() -> None:
    module = nn.Sequential(nn.LazyLinear(4), nn.ReLU())
    assert check(module, "replicas").status == "pass"
    assert isinstance(module[0].weight, nn.UninitializedParameter)


def test_three_threads_are_interleaved_too() -> None:
    found = check(KeepsInput(), "shared", replace(LAYERS, threads=3, schedules=40))
    assert (found.status, found.threads, found.runs) == ("fail", 3, 40)
    assert found.schedule is not None
    assert replay(KeepsInput(), found.schedule).threads == 3


def test_too_many_schedules_are_counted_and_the_seed_is_named() -> None:
    found = check(Counts(), "shared", replace(LAYERS, schedules=20, seed=7))
    assert (found.status, found.runs, found.schedules) == ("pass", 20, 62)
    assert found.detail == (
        "20 of 62 schedules right (2 threads, 5 points each, at most 2 preemptions); "
        "chosen by seed 7, no more than 20 (--schedules)"
    )


def test_the_time_limit_ends_the_exploration_and_is_named() -> None:
    ticks = count()
    (found,) = check_block(
        PaperBlock(Counts()), ("shared",), replace(LAYERS, max_time_s=12), clock=lambda: float(next(ticks))
    )
    # The clock is asked for the end and the start, four times before the right answers are known, before each
    # run for the end of all time, and from the fourth run on for the scenario's own end; the last time it says 12.
    assert (found.status, found.runs, found.schedules) == ("pass", 4, 62)
    assert found.detail.endswith(
        "4 of 62 schedules right (2 threads, 5 points each, at most 2 preemptions); "
        "the time was up (--max-time)"
    )


def test_a_few_schedules_of_a_scenario_are_tried_after_its_share_of_the_time() -> None:
    ticks = count()
    results = check_block(
        PaperBlock(Counts()),
        ("replicas", "copies", "exception"),
        replace(LAYERS, max_time_s=28),
        clock=lambda: float(next(ticks)),
    )
    # Copies would have had one; what is left then is not enough to know the right answers of the last.
    assert [(result.scenario, result.status, result.runs) for result in results] == [
        ("replicas", "pass", 6),
        ("copies", "pass", 3),
        ("exception", "skip", 0),
    ]


def test_the_mode_that_one_scenario_has_found_is_that_of_the_next() -> None:
    linear = nn.Linear(4, 4)
    # Singular values this close keep the power iteration moving for some hundred calls.
    linear.weight.data = torch.diag(torch.tensor([1.0, 0.99, 0.98, 0.97]))
    module = nn.Sequential(nn.utils.parametrizations.spectral_norm(linear), nn.ReLU())
    results = list(
        check_block(PaperBlock(module), ("shared", "nested", "exception"), replace(LAYERS, schedules=12))
    )
    assert [result.status for result in results] == ["pass"] * 3
    for result in results:
        assert result.detail.endswith(
            "in eval mode, since in its own mode the result of one call depends on the calls before it"
        )


def test_without_any_time_nothing_passes() -> None:
    results = list(check_block(PaperBlock(Counts()), ("shared", "stress"), replace(LAYERS, max_time_s=0)))
    assert [(result.status, result.runs) for result in results] == [("skip", 0), ("skip", 0)]


def test_the_state_scenario_names_what_forward_writes() -> None:
    found = check(KeepsByName(), "state")
    assert (found.status, found.runs, found.wrong, found.threads) == ("warn", 2, 2, 1)
    assert found.changed == ("store",)
    assert found.detail == "forward writes to the module: store"
    assert (found.bound, found.points, found.schedule) == (None, None, None)


def test_a_counter_warns_in_the_state_and_passes_its_schedules() -> None:
    assert check(Counts(), "state").changed == ("calls",)
    assert check(Counts(), "shared").status == "pass"


def test_an_input_kept_between_two_layers_is_named_and_fails_its_schedules() -> None:
    state = check(KeepsInput(), "state")
    assert (state.status, state.changed) == ("warn", ("kept",))
    found = check(KeepsInput(), "shared")
    assert found.status == "fail"
    assert found.schedule == "shared:A1,B,A"


def test_a_write_of_the_first_call_alone_is_called_that() -> None:
    found = check(nn.Sequential(nn.LazyLinear(4)), "state")
    assert (found.status, found.wrong) == ("warn", 1)
    assert found.detail.startswith("forward writes to the module in its first call only: ")
    assert {"0.weight", "0.bias", "0.__class__"} <= set(found.changed)


def test_a_forward_that_writes_nothing_passes() -> None:
    found = check(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).eval(), "state")
    assert (found.status, found.changed, found.wrong) == ("pass", (), 0)


def test_stress_finds_a_race_that_is_everywhere() -> None:
    class Sleeps(KeepsMean):
        def forward(self, x: Tensor) -> Tensor:
            self.kept = x.mean(0)
            time.sleep(0.002)  # the other threads run meanwhile
            branch: Tensor = self.second(self.first(x))
            return branch + self.kept

    found = check(Sleeps(), "stress", replace(LAYERS, iterations=5))
    assert (found.status, found.threads, found.runs, found.schedule) == ("fail", 4, 20, None)
    assert f"{found.wrong} of 20 calls of 4 free threads wrong" in found.detail
    assert found.failure is not None
    assert found.failure.wrong[0].value == "output"
    assert found.failure.steps == ()


def test_stress_of_a_plain_block_passes_and_proves_nothing() -> None:
    found = check(nn.Sequential(nn.Linear(4, 64), nn.LayerNorm(64), nn.Linear(64, 4)), "stress")
    assert (found.status, found.runs, found.wrong, found.bound) == ("pass", 200, 0, None)
    assert found.detail == "200 calls of 4 free threads right: no proof"


def test_free_threads_begin_together_and_change_as_often_as_they_can(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[int] = []
    intervals: list[float] = []

    class Barrier(threading.Barrier):
        def wait(self, timeout: float | None = None) -> int:
            waited.append(self.parties)
            return super().wait(timeout)

    class Looks(TwoLayers):
        def forward(self, x: Tensor) -> Tensor:
            intervals.append(sys.getswitchinterval())
            out: Tensor = self.second(self.first(x))
            return out

    monkeypatch.setattr("rescli.threads.stress.threading.Barrier", Barrier)
    usual = sys.getswitchinterval()
    assert check(Looks(), "stress", replace(LAYERS, iterations=3)).runs == 12
    assert waited == [4] * 4
    assert [interval < usual / 100 for interval in intervals[-12:]] == [True] * 12
    assert intervals[0] == usual


def test_stress_runs_without_any_hook_on_the_module() -> None:
    class SeesHooks(TwoLayers):
        def forward(self, x: Tensor) -> Tensor:
            assert not self.first._forward_hooks
            assert not self._forward_hooks
            out: Tensor = self.second(self.first(x))
            return out

    assert check(SeesHooks(), "stress").status == "pass"
    assert check(SeesHooks(), "shared").status == "skip"


def test_wide_layers_give_free_threads_the_bits_of_the_reference() -> None:
    # A matrix product that is split among worker threads has other last bits than one that is not.
    block = PaperBlock(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)), (torch.randn(8, 64),))
    (found,) = check_block(block, ("stress",), LAYERS)
    assert (found.status, found.wrong) == ("pass", 0)


def test_nothing_of_the_user_or_of_the_process_is_changed() -> None:
    module = KeepsByName()
    before = take_snapshot(module)
    threads, interval = torch.get_num_threads(), sys.getswitchinterval()
    torch_state, python_state = torch.get_rng_state(), random.getstate()
    for _ in check_block(PaperBlock(module), list(SCENARIOS), replace(LAYERS, schedules=20)):
        assert torch.get_num_threads() == threads
        assert torch.equal(torch.get_rng_state(), torch_state)
    assert changed_names(before, take_snapshot(module)) == ()
    assert all(parameter.grad is None for parameter in module.parameters())
    assert (torch.get_num_threads(), sys.getswitchinterval()) == (threads, interval)
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert random.getstate() == python_state


def test_a_block_that_fails_in_a_single_thread_is_no_matter_of_threads() -> None:
    block = PaperBlock(TwoLayers())  # no forward
    with pytest.raises(SingleThreadError) as caught:
        list(check_block(block, ("shared",), LAYERS))
    assert isinstance(caught.value.__cause__, NotImplementedError)


def test_a_block_with_a_fixed_batch_size_gets_equal_ones() -> None:
    class OnlyThree(TwoLayers):
        def forward(self, x: Tensor) -> Tensor:
            if x.shape[0] != 3:
                raise ValueError(x.shape)
            self.kept = x
            out: Tensor = self.second(self.first(x))
            return out + self.kept

    found = check(OnlyThree(), "shared")
    assert (found.status, found.runs) == ("fail", 62)
    assert found.failure is not None
    assert found.failure.wrong[0].value == "output"


def test_a_schedule_with_more_points_than_the_block_has_is_refused() -> None:
    with pytest.raises(CommandLineError) as caught:
        replay(KeepsInput(), "shared:A6,B,A")
    assert str(caught.value) == "--replay shared:A6,B,A: thread A passes only 5 points in net.py:block"


def test_a_right_schedule_replays_as_a_pass() -> None:
    found = replay(KeepsInput(), "shared:A,B")
    assert (found.status, found.runs, found.wrong, found.bound, found.schedule) == ("pass", 1, 0, 0, None)
    assert found.detail == "schedule A,B (0 preemptions): each thread gets what it gets alone"


def test_a_schedule_that_runs_into_a_lock_is_skipped_in_replay() -> None:
    scenario, schedule = parse_schedule("shared:A3,B,A")
    (found,) = check_block(PaperBlock(Locks()), (scenario,), IMPATIENT, replay=schedule)
    assert found.status == "skip"
    assert "cannot be followed: a thread waits, as for a lock that another one holds" in found.detail


def test_what_is_being_done_is_told() -> None:
    told: list[str] = []
    list(check_block(PaperBlock(Counts()), ("state", "shared"), LAYERS, say=told.append))
    assert told == [
        "block: state",
        "block: shared",
        *(f"block: shared, schedule {index} of 62" for index in range(0, 62, 20)),
    ]


def test_every_thread_has_values_and_a_batch_size_of_its_own() -> None:
    seen: dict[int, Tensor] = {}

    class Spies(TwoLayers):
        def forward(self, x: Tensor) -> Tensor:
            seen.setdefault(x.shape[0], x.detach().clone())
            out: Tensor = self.second(self.first(x))
            return out

    check(Spies(), "shared", replace(LAYERS, threads=4, preemptions=0))
    assert sorted(seen) == [3, 4, 5, 6]
    assert not torch.equal(seen[4][:3], seen[3])
    assert sorted(seen[3].flatten().tolist()) == sorted(example(3).flatten().tolist())
