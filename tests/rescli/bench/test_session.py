from __future__ import annotations

import contextlib
import threading
import warnings
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn

from rescli.bench.describe import batch_size_of
from rescli.bench.modes import Modes
from rescli.bench.session import Findings, bench_blocks
from rescli.bench.settings import Settings, thread_setting
from rescli.bench.variant import Match
from rescli.spec.prepare import PreparedBlock
from tests.rescli.bench.paper import PaperClock
from torchresidual import Apply, Record, ResidualSequential

if TYPE_CHECKING:
    from collections.abc import Callable

    from rescli.bench.result import PassName, PassResult

CLOCK = PaperClock()


class Ticking(nn.Module):
    """Takes time on paper: the calls of its copies move the one clock."""

    def __init__(self, call_s: float = 1e-3, after: Callable[[Tensor], None] = lambda _x: None) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.dropout = nn.Dropout(0.5)
        self.call_s = call_s
        self.after = after

    def forward(self, x: Tensor) -> Tensor:
        CLOCK.seconds += self.call_s
        out: Tensor = self.dropout(self.layer(x))
        self.after(x)
        if out.requires_grad:
            out.register_hook(self.back)  # type: ignore[no-untyped-call] # torch has no types here
        return out

    def back(self, _gradient: Tensor) -> None:
        CLOCK.seconds += 2 * self.call_s


@pytest.fixture(autouse=True)
def paper_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    CLOCK.seconds = 100.0
    monkeypatch.setattr("rescli.bench.session.clock_for", lambda _devices: CLOCK)


def block_of(module: nn.Module, *inputs: Tensor, name: str = "block", batch_dim: int = 0) -> PreparedBlock:
    fed = inputs or (torch.ones(8, 4),)
    return PreparedBlock(name, f"spec.py:{name}", module, fed, "option", None, batch_dim)


def measured(*blocks: PreparedBlock, settings: Settings | None = None) -> list[PassResult]:
    findings = Findings()
    bench_blocks([Match(block) for block in blocks], settings or Settings(min_time_s=0), findings)
    return findings.rows


def codes(row: PassResult) -> list[str]:
    return [warning.code for warning in row.warnings]


def test_each_pass_has_a_row_with_its_own_time() -> None:
    rows = measured(block_of(Ticking()))
    assert [row.pass_name for row in rows] == ["inference", "forward", "backward", "step"]
    times = [row.statistics.median_s for row in rows if row.statistics]
    assert times == pytest.approx([1e-3, 1e-3, 2e-3, 3e-3])
    assert [row.throughput_per_s for row in rows] == pytest.approx([8000, 8000, 4000, 8000 / 3])
    assert {(row.device, row.dtype, row.batch_size, row.parallel) for row in rows} == {
        ("cpu", "float32", 8, "none")
    }
    assert [codes(row) for row in rows] == [[]] * 4


def test_only_the_passes_that_are_wanted_have_a_row() -> None:
    rows = measured(block_of(Ticking()), settings=Settings(min_time_s=0, passes=("inference", "backward")))
    assert [row.pass_name for row in rows] == ["inference", "backward"]


def test_flops_give_a_rate() -> None:
    inference, _, backward, _ = measured(block_of(Ticking()))
    assert inference.flops == backward.flops == 2 * 8 * 4 * 4
    assert inference.flops_per_s == pytest.approx(256 / 1e-3)


def test_the_specs_own_module_is_left_as_it_was() -> None:
    module = Ticking().eval()
    x = torch.ones(8, 4)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    torch.manual_seed(5)
    state = torch.get_rng_state()
    measured(block_of(module, x))
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert not module.training
    assert not module.layer.training
    assert [parameter.grad for parameter in module.parameters()] == [None, None]
    assert not x.requires_grad
    # Dropout has drawn numbers, but none of the caller's.
    assert torch.equal(torch.get_rng_state(), state)


def test_the_blocks_of_a_target_share_its_time() -> None:
    # Two-mode times never get tight.
    flip = iter(range(10**9))

    def unsteady(_x: Tensor) -> None:
        CLOCK.seconds += 1e-3 * (next(flip) // 2 % 2)

    blocks = [block_of(Ticking(after=unsteady), name=name) for name in ("a", "b")]
    rows = measured(*blocks, settings=Settings(max_time_s=4, passes=("inference",)))
    assert [row.name for row in rows] == ["a", "b"]
    assert CLOCK.seconds == pytest.approx(104, abs=0.01)
    first, second = (len(row.samples_s) for row in rows)
    assert first == pytest.approx(second, rel=0.05)


# B3


def test_a_slow_block_ends_in_time_and_says_how_few_samples_it_has() -> None:
    rows = measured(block_of(Ticking(0.4)), settings=Settings(max_time_s=1))
    assert CLOCK.seconds <= 101
    inference, *others = rows
    assert len(inference.samples_s) == 1
    assert codes(inference) == ["too-few-samples"]
    assert inference.warnings[0].facts == {"samples": 1, "max_time_s": 1, "enough_s": 8}
    assert [codes(row) for row in others] == [["no-time"]] * 3


def test_the_time_that_is_then_advised_is_enough() -> None:
    rows = measured(block_of(Ticking(0.4)), settings=Settings(max_time_s=8, passes=("inference",)))
    assert len(rows[0].samples_s) >= 6
    assert codes(rows[0]) == []


# B4


def test_a_size_that_cannot_be_allocated_is_a_row_and_the_others_stand() -> None:
    def too_large(x: Tensor) -> None:
        if len(x) > 8:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.")

    rows = measured(
        block_of(Ticking(after=too_large)), settings=Settings(min_time_s=0, batch_sizes=(2, 16, 8))
    )
    assert [(row.batch_size, bool(row.samples_s), codes(row)) for row in rows] == [
        *[(2, True, [])] * 4,
        *[(16, False, ["out-of-memory"])] * 4,
        *[(8, True, [])] * 4,
    ]


@pytest.mark.parametrize("size", [10**13, 2**62])
def test_an_input_that_the_machine_refuses_is_a_row(size: int) -> None:
    rows = measured(block_of(Ticking()), settings=Settings(min_time_s=0, batch_sizes=(1, size)))
    assert [codes(row) for row in rows] == [[]] * 4 + [["out-of-memory"]] * 4
    assert [row.batch_size for row in rows] == [1] * 4 + [size] * 4


# Failures


def test_a_block_that_cannot_be_run_is_rows_and_the_next_is_measured() -> None:
    def breaks(_x: Tensor) -> None:
        raise ValueError("not today")

    rows = measured(block_of(Ticking(after=breaks), name="a"), block_of(Ticking(), name="b"))
    assert [(row.name, codes(row)) for row in rows] == [("a", ["failed"])] * 4 + [("b", [])] * 4
    assert rows[0].warnings[0].facts == {"error": "ValueError", "message": "not today"}


def test_a_block_that_cannot_go_backward_still_has_its_forward_time() -> None:
    class Detached(Ticking):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).detach()

    rows = measured(block_of(Detached()))
    assert [codes(row) for row in rows] == [[], [], ["no-gradient"], ["no-gradient"]]
    assert len(rows[1].samples_s) >= 30


# B1


def test_denormal_weights_are_told_of() -> None:
    module = Ticking()
    nn.init.constant_(module.layer.weight, 1e-41)
    rows = measured(block_of(module))
    assert [codes(row) for row in rows] == [["denormal"]] * 4
    assert rows[0].warnings[0].facts == {"count": 16, "where": "layer.weight", "places": 1}


# Threads


def test_more_threads_than_cores_are_told_of() -> None:
    with thread_setting(512):
        rows = measured(block_of(Ticking()), settings=Settings(min_time_s=0, passes=("inference",)))
    assert codes(rows[0]) == ["oversubscribed"]
    assert rows[0].warnings[0].facts["threads"] == 512


def test_the_thread_setting_is_put_back_also_after_an_error() -> None:
    before = torch.get_num_threads()

    def fail() -> None:
        with thread_setting(before + 3):
            assert torch.get_num_threads() == before + 3
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert torch.get_num_threads() == before


# Interruption


def test_an_interruption_keeps_the_rows_that_have_samples() -> None:
    def stops(_x: Tensor) -> None:
        if CLOCK.seconds > 101:
            raise KeyboardInterrupt

    findings = Findings()
    rows = findings.rows
    matches = [Match(block_of(Ticking(after=stops), name=name)) for name in ("a", "b")]
    with pytest.raises(KeyboardInterrupt):
        bench_blocks(matches, Settings(min_time_s=5), findings)
    assert [(row.name, row.pass_name) for row in rows] == [
        ("a", name) for name in ("inference", "forward", "backward", "step")
    ]
    assert all(row.samples_s for row in rows)


def test_an_interrupted_run_is_not_told_to_take_more_time() -> None:
    def stops(_x: Tensor) -> None:
        if CLOCK.seconds > 102.8:
            raise KeyboardInterrupt

    findings = Findings()
    rows = findings.rows
    with pytest.raises(KeyboardInterrupt):
        bench_blocks([Match(block_of(Ticking(0.3, after=stops)))], Settings(passes=("inference",)), findings)
    assert [(len(row.samples_s), codes(row)) for row in rows] == [(2, [])]


def test_the_batch_is_counted_along_its_own_dimension() -> None:
    assert batch_size_of(block_of(Ticking(), torch.ones(5, 3), batch_dim=1)) == 3
    assert batch_size_of(block_of(Ticking(), torch.tensor(1.0))) == 1


# Variants


class Skipping(ResidualSequential):
    """A block of which the skip takes 1 ms on paper and the layer 2 ms."""

    def __init__(self) -> None:
        super().__init__(Record(), Ticking(2e-3), Apply(projection=Ticking(1e-3)))


def found_by(*matches: Match, settings: Settings | None = None) -> Findings:
    findings = Findings()
    bench_blocks(matches, settings or Settings(min_time_s=0), findings)
    return findings


def test_plain_is_the_block_without_its_skips_and_compared_in_pairs() -> None:
    found = found_by(Match(block_of(Skipping()), plain=True))
    assert [(row.variant, row.pass_name) for row in found.rows] == [
        (variant, name)
        for variant in ("block", "plain")
        for name in ("inference", "forward", "backward", "step")
    ]
    assert [one.pass_name for one in found.comparisons] == ["inference", "forward", "backward", "step"]
    for one in found.comparisons:
        assert (one.a, one.b, one.kind, one.paired) == ("spec.py:block", "plain", "versus", True)
        assert one.ratio == pytest.approx(2 / 3)
        assert one.verdict == "faster"
        # The first sample of each was taken before the turns began.
        assert one.pairs == len(found.rows[0].samples_s) - 1


def test_another_block_is_compared_on_the_inputs_of_the_first() -> None:
    a = block_of(Ticking(1e-3), torch.full((8, 4), 7.0))
    seen: list[float] = []
    b = block_of(
        Ticking(1.05e-3, after=lambda x: seen.append(float(x[0, 0]))), torch.zeros(8, 4), name="other"
    )
    found = found_by(Match(a, versus=b), settings=Settings(min_time_s=0, passes=("inference",)))
    (one,) = found.comparisons
    # B2, on paper.
    assert one.ratio == pytest.approx(1.05)
    assert (one.a, one.b, one.verdict) == ("spec.py:block", "spec.py:other", "slower")
    assert set(seen) == {7.0}
    assert [row.target for row in found.rows] == ["spec.py:block", "spec.py:other"]


def test_a_plain_block_that_cannot_run_leaves_the_block_alone() -> None:
    block = ResidualSequential(Record(), Ticking(), Apply("concat"), nn.Linear(8, 4))
    found = found_by(
        Match(block_of(block), plain=True), settings=Settings(min_time_s=0, passes=("inference",))
    )
    assert [(row.variant, bool(row.samples_s), codes(row)) for row in found.rows] == [
        ("block", True, []),
        ("plain", False, ["no-plain"]),
    ]
    assert found.comparisons == []


def test_a_block_without_skips_has_no_plain_form() -> None:
    found = found_by(
        Match(block_of(Ticking()), plain=True), settings=Settings(min_time_s=0, passes=("inference",))
    )
    assert [codes(row) for row in found.rows] == [[], ["no-plain"]]
    assert found.rows[1].warnings[0].facts["error"] == "NothingToTakeOutError"


def test_memory_that_is_short_without_skips_is_no_fault_of_theirs() -> None:
    def too_large(_x: Tensor) -> None:
        raise MemoryError

    block = ResidualSequential(Record(), Ticking(after=too_large), Apply())
    found = found_by(
        Match(block_of(block), plain=True), settings=Settings(min_time_s=0, passes=("inference",))
    )
    assert [codes(row) for row in found.rows] == [["out-of-memory"]] * 2


def test_a_sweep_compares_at_each_size() -> None:
    settings = Settings(min_time_s=0, passes=("inference",), batch_sizes=(2, 4))
    found = found_by(Match(block_of(Skipping()), plain=True), settings=settings)
    assert [(one.batch_size, one.verdict) for one in found.comparisons] == [(2, "faster"), (4, "faster")]


def test_an_interruption_keeps_the_comparison_of_what_there_is() -> None:
    def stops(_x: Tensor) -> None:
        if CLOCK.seconds > 101:
            raise KeyboardInterrupt

    findings = Findings()
    match = Match(block_of(Ticking()), versus=block_of(Ticking(2e-3, after=stops), name="b"))
    with pytest.raises(KeyboardInterrupt):
        bench_blocks([match], Settings(min_time_s=5, passes=("inference",)), findings)
    assert [one.verdict for one in findings.comparisons] == ["slower"]


# Memory and rates


def test_each_pass_has_its_memory_and_what_is_kept_is_told() -> None:
    class Keeps(Ticking):
        def forward(self, x: Tensor) -> Tensor:
            self.kept = x.relu()
            return super().forward(x)

    tidy, keeps = (
        found_by(Match(block_of(kind(), torch.ones(8, 4))), settings=Settings(min_time_s=0)).rows
        for kind in (Ticking, Keeps)
    )
    assert [row.retained_bytes for row in tidy] == [0] * 4
    assert [row.retained_bytes for row in keeps] == [4 * 8 * 4] * 4
    assert all((row.peak_memory_bytes or 0) >= 4 * 8 * 4 for row in tidy)


def test_parameters_that_come_to_be_in_the_first_call_are_the_blocks_own() -> None:
    with warnings.catch_warnings():
        # Older versions of torch warn that lazy layers are under development.
        warnings.simplefilter("ignore", UserWarning)
        lazy = nn.Sequential(Ticking(), nn.LazyLinear(1024))
    (row,) = found_by(Match(block_of(lazy)), settings=Settings(min_time_s=0, passes=("inference",))).rows
    assert row.retained_bytes == 0


def test_the_share_of_the_matmul_rate_is_of_the_type_that_is_computed_in() -> None:
    asked: list[torch.dtype] = []

    def rate(_device: torch.device, dtype: torch.dtype, _clock: object) -> float:
        asked.append(dtype)
        return 1e6

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rescli.bench.session.matmul_rate", rate)
        passes: tuple[PassName, ...] = ("inference",)
        plain = measured(block_of(Ticking()), settings=Settings(min_time_s=0, passes=passes))
        amp = measured(
            block_of(Ticking()), settings=Settings(min_time_s=0, passes=passes, modes=Modes(amp=True))
        )
    assert asked == [torch.float32, torch.bfloat16]
    # 256 operations in 1 ms.
    assert plain[0].flops_share == pytest.approx(0.256)
    assert (plain[0].autocast_dtype, amp[0].autocast_dtype) == (None, "bfloat16")


def test_what_compiling_takes_is_told_apart() -> None:
    seen: list[float] = []

    def slow_first(_x: Tensor) -> None:
        seen.append(CLOCK.seconds)
        if len(seen) == 1:
            CLOCK.seconds += 2

    with pytest.MonkeyPatch.context() as patch:
        # Compiling on paper: the first call takes two seconds more.
        patch.setattr(torch, "compile", lambda module: module)
        settings = Settings(min_time_s=0, passes=("inference",), modes=Modes(compiled=True))
        (row,) = measured(block_of(Ticking(after=slow_first)), settings=settings)
    assert row.compiled
    assert row.first_call_s == pytest.approx(2.001)
    assert row.compile_s == pytest.approx(2)
    assert row.statistics is not None
    assert row.statistics.median_s == pytest.approx(1e-3)


# Several devices


class _Half(nn.Module):
    """Stands for a block that several devices share: its calls take less time."""

    def __init__(self, module: nn.Module, share: float) -> None:
        super().__init__()
        self.module = module
        self.share = share

    def forward(self, x: Tensor) -> Tensor:
        before = CLOCK.seconds
        out: Tensor = self.module(x)
        CLOCK.seconds = before + (CLOCK.seconds - before) * self.share
        return out


def scaled(monkeypatch: pytest.MonkeyPatch, share: float) -> tuple[Findings, list[object]]:
    """Measure a block on two GPUs that are not there, and say what was spread over which devices."""
    spread: list[object] = []

    def data_parallel(module: nn.Module, device_ids: list[int]) -> nn.Module:
        spread.append(device_ids)
        return _Half(module, share)

    def no_rng(devices: object) -> contextlib.nullcontext[object]:
        return contextlib.nullcontext(devices)

    monkeypatch.setattr("rescli.bench.parallel.nn.DataParallel", data_parallel)
    monkeypatch.setattr("rescli.bench.session.matmul_rate", lambda *_: 1e9)
    monkeypatch.setattr("rescli.bench.extras.measure_variant", lambda *_: {})
    monkeypatch.setattr(torch.random, "fork_rng", no_rng)
    settings = Settings(
        devices=(torch.device("cuda:0"), torch.device("cuda:1")),
        passes=("inference",),
        min_time_s=0,
        modes=Modes(parallel="dp"),
    )
    findings = Findings()
    bench_blocks([Match(block_of(Ticking(10e-3)), single=True)], settings, findings)
    return findings, spread


def test_a_block_on_two_gpus_is_compared_with_the_same_batch_on_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    findings, spread = scaled(monkeypatch, share=0.625)
    block, single = findings.rows
    assert (block.variant, block.device, block.parallel, block.workers) == ("block", "cuda:0,cuda:1", "dp", 2)
    assert (single.variant, single.device, single.parallel, single.workers) == ("single", "cuda:0", "none", 1)
    assert block.batch_size == single.batch_size == 8
    # Two devices can do twice as much, and the one block is measured as it is.
    assert block.flops_share == pytest.approx(block.flops_per_s / 2e9 if block.flops_per_s else None)
    assert spread == [[0, 1]]
    (found,) = findings.comparisons
    assert (found.kind, found.a, found.b, found.workers) == ("scaling", "spec.py:block", "single", 2)
    assert [found.ratio, found.efficiency] == pytest.approx([1.6, 0.8])
    assert (found.verdict, found.paired) == ("slower", True)


def test_devices_that_only_get_in_each_others_way_have_a_speed_up_below_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (found,) = scaled(monkeypatch, share=2)[0].comparisons
    assert [found.ratio, found.efficiency] == pytest.approx([0.5, 0.25])
    assert found.verdict == "faster"


# What is not counted, and what is not copied by itself


def test_why_there_are_no_flops_is_told_once_they_would_be_looked_for() -> None:
    class Inverse(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            CLOCK.seconds += 1e-3
            return torch.inverse(x)

    block = block_of(nn.Sequential(Inverse()), torch.eye(4))
    (row,) = measured(block, settings=Settings(min_time_s=0, passes=("inference",)))
    assert (row.flops, row.flops_per_s) == (None, None)
    (warning,) = row.warnings
    assert (warning.code, warning.facts) == (
        "uncounted",
        {"reason": "there is no formula for what 0 computes"},
    )


def test_a_block_with_a_lock_is_measured() -> None:
    class Guarded(Ticking):
        def __init__(self) -> None:
            super().__init__()
            self.lock = threading.Lock()

        def forward(self, x: Tensor) -> Tensor:
            with self.lock:
                return super().forward(x)

    block = Guarded()
    rows = found_by(Match(block_of(ResidualSequential(Record(), block, Apply())), plain=True)).rows
    assert {row.variant for row in rows} == {"block", "plain"}
    assert [codes(row) for row in rows] == [[]] * len(rows)
    assert not block.lock.locked()
