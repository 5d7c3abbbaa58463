"""What each scenario beyond shared and replicas finds, and what it leaves alone."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn

from rescli.threads.limits import Limits
from rescli.threads.scenarios import check_block
from tests.rescli.threads.planted import (
    ALL,
    LAYERS,
    Counts,
    KeepsInput,
    KeepsMean,
    KeepsOuter,
    Locks,
    MakesLayer,
    MakesLayerUnderLock,
    PaperBlock,
    TwoLayers,
    check,
    example,
    replay,
)
from torchresidual import Apply, LearnableAlpha, Record, ResidualSequential

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rescli.threads.result import ThreadsResult

FEW = replace(LAYERS, schedules=60)


def residual(*, projection: bool = False) -> ResidualSequential:
    width = 6 if projection else 4
    return ResidualSequential(
        Record(need_projection=projection, name="r"),
        nn.Linear(4, width),
        ResidualSequential(Record(name="r"), nn.Linear(width, width), Apply("highway", "r")),
        Apply("gated", "r", alpha=LearnableAlpha(0.3)),
    )


def check_with(module: nn.Module, inputs: Sequence[Tensor], scenario: str, batch_dim: int) -> ThreadsResult:
    block = PaperBlock(module, tuple(inputs), batch_dim=batch_dim)
    (found,) = check_block(block, (scenario,), FEW)
    return found


# nested


class KeepsPerThread(TwoLayers):
    """Safe with threads, wrong when forward is called from within itself."""

    def __init__(self) -> None:
        super().__init__()
        self.own = PicklableLocal()

    def forward(self, x: Tensor) -> Tensor:
        self.own.kept = x.mean(0)
        branch: Tensor = self.second(self.first(x))
        kept: Tensor = self.own.kept
        return branch + kept


class PicklableLocal(threading.local):
    """A threading.local that copies as a fresh one."""

    def __deepcopy__(self, memo: object) -> PicklableLocal:
        return PicklableLocal()


def test_a_forward_that_cannot_be_called_from_within_itself_is_warned_of() -> None:
    assert check(KeepsPerThread(), "shared").status == "pass"
    found = check(KeepsPerThread(), "nested")
    assert (found.status, found.runs, found.wrong, found.threads) == ("warn", 1, 1, 1)
    assert found.detail.startswith(
        "a call before first within a call, both in one thread, gives other values than one after the other: "
        "output is "
    )


def test_calls_within_calls_that_are_right_pass_in_one_thread_and_in_several() -> None:
    found = check(residual(), "nested", FEW)
    assert (found.status, found.wrong, found.threads) == ("pass", 0, 2)
    assert found.detail.startswith(
        "calls within calls: right before each of 6 layers in one thread; 20 of 3,614 schedules right "
    )


def test_a_race_between_calls_within_calls_has_a_schedule_that_replays() -> None:
    module = KeepsOuter()
    found = check(module, "nested")
    assert found.status == "fail"
    assert found.schedule is not None
    assert found.schedule.startswith("nested:")
    for _ in range(3):
        again = replay(module, found.schedule)
        assert (again.status, again.failure) == ("fail", found.failure)


def test_a_lock_that_is_not_reentrant_is_no_fault_of_calls_within_calls() -> None:
    found = check(Locks(), "nested")
    assert (found.status, found.detail) == (
        "skip",
        "a call before second within a call never ends, as if it waited for a lock that its own outer call holds",
    )


# lazy


def test_first_calls_that_lose_a_layer_are_found_between_lines() -> None:
    module = MakesLayer()
    found = check(module, "lazy", ALL)
    assert (found.status, found.threads) == ("fail", 4)
    assert found.detail.startswith(
        "thread B: number of parameters it used that the module does not hold is 2, alone it is 0; "
    )
    assert found.detail.endswith("made or sized in the first call: made")
    assert found.schedule is not None
    again = replay(module, found.schedule)
    assert (again.status, again.failure) == ("fail", found.failure)


def test_the_same_first_call_under_a_lock_passes() -> None:
    found = check(MakesLayerUnderLock(), "lazy", ALL)
    assert (found.status, found.wrong) == ("pass", 0)
    assert "cannot be followed: a thread waits" in found.detail


def test_the_lazy_layers_of_pytorch_are_not_safe_in_their_first_call() -> None:
    module = nn.Sequential(nn.LazyLinear(4), nn.ReLU())
    found = check(module, "lazy", replace(FEW, schedules=150))
    assert found.status == "fail"
    assert "AttributeError: 'Linear' object has no attribute" in found.detail
    with torch.no_grad():
        module(example(3))
    assert check(module, "shared", FEW).status == "pass"


def test_a_block_that_makes_nothing_is_not_said_to_make_it_right() -> None:
    found = check(residual(projection=True), "lazy")
    assert (found.status, found.runs) == ("skip", 0)
    assert found.detail.startswith("nothing is made or sized in the first call")


def test_an_unsettled_block_of_ours_is_sized_once() -> None:
    class Unknown(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 6)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.inner(x)
            return out

    block = ResidualSequential(Record(need_projection=True), Unknown(), Apply())
    found = check(block, "lazy", replace(ALL, schedules=9, random_schedules=0))
    assert (found.status, found.wrong, found.threads) == ("pass", 0, 4)
    assert "made or sized in the first call" in found.detail


# copies


def test_a_block_can_be_copied_while_others_run_it() -> None:
    found = check(residual(projection=True), "copies")
    assert (found.status, found.wrong, found.runs) == ("pass", 0, found.schedules)
    assert "not compared" not in found.detail


def test_an_activation_on_the_module_makes_copies_fail() -> None:
    found = check(KeepsInput(), "copies")
    assert found.status == "fail"
    assert found.schedule is not None
    assert found.detail.startswith("thread B: deepcopy raises RuntimeError: Only Tensors created explicitly")
    assert replay(KeepsInput(), found.schedule).status == "fail"


class Swaps(TwoLayers):
    """Changes a buffer while layers run, and puts it back."""

    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        self.scale.add_(1)
        hidden: Tensor = self.first(x)
        self.scale.sub_(1)
        out: Tensor = self.second(hidden) * self.scale
        return out


def test_a_torn_state_is_found_in_each_kind_of_copy() -> None:
    found = check(Swaps(), "copies")
    assert found.failure is not None
    torn = {"state_dict's scale", "deepcopy's output", "pickle's output"}
    assert torn <= {wrong.value for wrong in found.failure.wrong}


def test_a_way_of_copying_that_never_works_is_named() -> None:
    found = check(Locks(), "copies")
    assert found.status == "pass"
    assert "not compared, since even alone deepcopy raises TypeError: cannot pickle" in found.detail


# exception


class ForgetsToTidy(TwoLayers):
    """Fault: what it keeps for each thread stays there after an exception."""

    def __init__(self) -> None:
        super().__init__()
        self.own = PicklableLocal()

    def forward(self, x: Tensor) -> Tensor:
        depth = getattr(self.own, "depth", 0)
        self.own.depth = depth + 1
        out: Tensor = self.second(self.first(x)) + depth
        self.own.depth = depth
        return out


class Tidies(ForgetsToTidy):
    """Harmless: the same, put back whatever happens."""

    def forward(self, x: Tensor) -> Tensor:
        depth = getattr(self.own, "depth", 0)
        self.own.depth = depth + 1
        try:
            out: Tensor = self.second(self.first(x)) + depth
        finally:
            self.own.depth = depth
        return out


class HoldsOn(TwoLayers):
    """Fault: a lock that an exception leaves taken."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()

    def forward(self, x: Tensor) -> Tensor:
        self.lock.acquire()
        hidden: Tensor = self.first(x)
        self.lock.release()
        out: Tensor = self.second(hidden)
        return out


def test_what_an_exception_leaves_behind_for_its_own_thread_is_found() -> None:
    assert check(ForgetsToTidy(), "shared").status == "pass"
    found = check(ForgetsToTidy(), "exception")
    assert (found.status, found.wrong) == ("fail", 1)
    assert found.detail.startswith(
        "after an exception in forward (raised before first and before second) the same thread's next call: "
        "output is "
    )
    assert check(Tidies(), "exception", FEW).status == "pass"


def test_a_lock_that_an_exception_leaves_taken_is_not_waited_for() -> None:
    found = check(HoldsOn(), "exception")
    assert (found.status, found.detail) == ("skip", "a single thread does not come to its end")


def test_an_exception_in_one_thread_harms_nobody_in_our_block() -> None:
    found = check(residual(), "exception", FEW)
    assert (found.status, found.wrong, found.threads, found.runs) == ("pass", 0, 4, 20)
    assert found.detail.startswith(
        "thread A met an exception before 2.1 and before 3.alpha, then called again; "
    )


def test_a_context_that_an_exception_does_not_restore_is_found() -> None:
    from torchresidual import core

    class Forgets(ForgetsToTidy):
        def forward(self, x: Tensor) -> Tensor:
            core._context.current_sequential = self
            out: Tensor = self.second(self.first(x))
            core._context.current_sequential = None
            return out

    found = check(Forgets(), "exception")
    assert found.status == "fail"
    assert found.detail.endswith(
        "torchresidual's context after the exception is another current_sequential, "
        "without the exception it is as before"
    )


class RaisesAt5(TwoLayers):
    """Raises for one of four threads: the third, whose batch has five items."""

    def forward(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.first(x)
        if x.shape[0] == 5:
            raise ValueError("five is too many")
        out: Tensor = self.second(hidden)
        return out


@pytest.mark.parametrize("scenario", ["exception", "shared", "stress"])
def test_an_exception_in_one_of_four_threads_fails_and_the_others_are_compared(scenario: str) -> None:
    found = check(RaisesAt5(), scenario, replace(FEW, threads=4, iterations=5))
    assert (found.status, found.threads, found.wrong) == ("fail", 4, 0)
    assert found.runs >= 20
    assert found.detail.startswith("thread C raises ValueError: five is too many (test_situations.py:")
    assert "also when it runs alone" in found.detail
    assert ("the other threads: " in found.detail) == (scenario != "stress")


def test_the_others_of_four_threads_are_really_compared() -> None:
    class AndKeeps(RaisesAt5):
        def forward(self, x: Tensor) -> Tensor:
            self.kept = x.mean(0)
            out = super().forward(x)
            return out + self.kept

    found = check(AndKeeps(), "exception", replace(FEW, threads=4))
    assert found.failure is not None
    assert {wrong.thread for wrong in found.failure.wrong} <= {"A", "B", "D"}


# batchnorm, and the dimension that is cut


def test_the_statistics_of_all_but_one_replica_are_lost() -> None:
    found = check(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)), "batchnorm", replace(FEW, threads=3))
    assert (found.status, found.runs, found.wrong, found.threads) == ("warn", 3, 2, 3)
    assert "statistics of all but one replica are lost: 1.running_mean, 1.running_var" in found.detail
    assert "hold what the first of 3 gave" in found.detail


def test_a_buffer_that_forward_replaces_keeps_nothing_of_any_replica() -> None:
    class Averages(nn.Module):
        mean: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(4))

        def forward(self, x: Tensor) -> Tensor:
            self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
            return x

    found = check(Averages(), "batchnorm")
    assert (found.status, found.wrong) == ("warn", 2)
    assert "statistics of all replicas are lost: mean;" in found.detail


@pytest.mark.parametrize("module", [nn.Linear(4, 4), nn.BatchNorm1d(4).eval()])
def test_without_statistics_there_is_nothing_to_lose(module: nn.Module) -> None:
    found = check(module, "batchnorm")
    assert (found.status, found.detail) == (
        "skip",
        "a forward changes no buffer: there is no BatchNorm in train mode",
    )


@pytest.mark.parametrize("batch_dim", [0, 1])
def test_an_lstm_with_the_batch_second_is_warned_of_with_its_dimension(batch_dim: int) -> None:
    found = check_with(nn.Sequential(nn.LSTM(4, 4)), [torch.randn(6, 3, 4)], "replicas", batch_dim)
    assert found.status == "warn"
    assert found.wrong == 0
    assert found.detail.startswith(
        "nn.DataParallel cuts dim=0 of an input (6, 3, 4), which changes the result, as that is not the batch; "
        "the batch lies in dim=1: nn.DataParallel(module, dim=1); all "
    )


@pytest.mark.parametrize("module", [nn.LSTM(4, 4, batch_first=True), nn.Linear(4, 4)])
def test_a_batch_that_comes_first_is_not_warned_of(module: nn.Module) -> None:
    assert check_with(nn.Sequential(module), [torch.randn(6, 3, 4)], "replicas", 0).status == "pass"


def test_a_module_that_mixes_the_items_of_a_batch_says_nothing_about_dimensions() -> None:
    class Mixes(TwoLayers):
        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.second(self.first(x))
            return out - out.mean()

    assert check_with(Mixes(), [example(6)], "replicas", 0).status == "pass"


# what may be in a module


def test_a_forward_that_yields_is_read_to_its_end_in_its_thread() -> None:
    class Yields(TwoLayers):
        def forward(self, x: Tensor) -> object:
            self.kept = x.mean(0)
            yield self.first(x)
            yield self.second(x) + self.kept

    found = check(Yields(), "shared")
    assert found.failure is not None
    assert "output[1]" in [wrong.value for wrong in found.failure.wrong]


def test_two_thousand_layers_are_thinned_and_that_is_said() -> None:
    module = nn.Sequential(*(nn.Identity() for _ in range(2000)))
    found = check(module, "shared", replace(LAYERS, schedules=3))
    assert (found.status, found.points, found.runs) == ("pass", 4001, 3)
    assert "(2 threads, 256 of 4,001 points each, at most 2 preemptions)" in found.detail


def test_a_slow_layer_ends_in_time_and_says_what_was_tried() -> None:
    class Slow(TwoLayers):
        def forward(self, x: Tensor) -> Tensor:
            time.sleep(0.02)
            out: Tensor = self.second(self.first(x))
            return out

    start = time.monotonic()
    results = list(check_block(PaperBlock(Slow()), ("shared", "copies", "stress"), Limits(max_time_s=0.6)))
    assert time.monotonic() - start < 30
    assert [result.status for result in results[:1]] == ["pass"]
    assert 0 < results[0].runs < 62
    assert "the time was up (--max-time)" in results[0].detail


def test_a_schedule_of_many_threads_is_interrupted_however_little_time_there_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rescli.threads.limits.USUAL_TIME_S", 0.0)
    found = check(KeepsMean(), "shared", replace(LAYERS, threads=4, max_time_s=None))
    # Of four threads there are 24 orders without any interruption.
    assert (found.status, found.runs, found.wrong) == ("fail", 3, 1)
    assert found.schedule is not None
    assert "the time was up (--max-time)" in found.detail


def test_each_scenario_tries_a_few_schedules_where_the_usual_time_is_too_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rescli.threads.limits.USUAL_TIME_S", 0.0)
    names = ("shared", "replicas", "nested", "copies", "exception", "stress")
    results = list(check_block(PaperBlock(Counts()), names, replace(LAYERS, max_time_s=None)))
    assert [(result.scenario, result.status, result.runs) for result in results] == [
        *((name, "pass", 3) for name in names[:-1]),
        ("stress", "pass", 4),
    ]
    assert results[2].detail.startswith("calls within calls: right before one layer in one thread; ")
    assert all("the time was up (--max-time)" in result.detail for result in results)
    monkeypatch.setattr("rescli.threads.limits.MOST_TIME_S", 0.0)
    late = list(check_block(PaperBlock(Counts()), names, replace(LAYERS, max_time_s=None)))
    assert {(result.status, result.runs) for result in late} == {("skip", 0)}


@pytest.mark.parametrize("threads", [5, 8])
def test_up_to_eight_threads_are_interleaved(threads: int) -> None:
    found = check(KeepsMean(), "shared", replace(LAYERS, schedules=12, threads=threads))
    assert (found.status, found.threads) == ("fail", threads)
    assert found.schedule is not None
    assert replay(KeepsMean(), found.schedule).threads == threads
    assert check(Counts(), "shared", replace(LAYERS, schedules=12, threads=threads)).status == "pass"


def test_dropout_after_an_exception_draws_what_it_would_have_drawn() -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.Linear(4, 4))
    assert check(module, "exception").status == "pass"
