from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn

from rescli.bench.describe import batch_size_of
from rescli.bench.session import Findings, bench_blocks
from rescli.bench.settings import Settings, thread_setting
from rescli.bench.variant import Match
from rescli.spec.prepare import PreparedBlock
from tests.rescli.bench.paper import PaperClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from rescli.bench.result import PassResult

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
