from __future__ import annotations

import time

import pytest
import torch
from torch import nn

import rescli
from rescli.errors import CommandLineError, SpecError
from torchresidual import Apply, Record, ResidualSequential


def test_a_module_is_measured_and_left_as_it_is() -> None:
    layer = nn.Linear(4, 4).eval()
    threads = torch.get_num_threads()
    found = rescli.benchmark(
        layer, torch.ones(3, 4), passes=["step", "inference"], threads=1, min_time_s=0, max_time_s=1
    )
    assert [row.pass_name for row in found.results] == ["inference", "step"]
    assert {(row.name, row.target, row.batch_size) for row in found.results} == {
        ("Linear", "torch.nn.modules.linear:Linear", 3)
    }
    assert [row.flops for row in found.results] == [96, 192]
    assert found.environment.threads == 1
    assert found.comparisons == ()
    assert not layer.training
    assert layer.weight.grad is None
    assert torch.get_num_threads() == threads


def test_two_modules_are_compared_on_the_same_input() -> None:
    small = nn.Sequential(nn.Linear(64, 64))
    large = nn.Sequential(nn.Linear(64, 4096), nn.Linear(4096, 64))
    found = rescli.benchmark(
        small, torch.ones(8, 64), versus=large, passes=["inference"], batch_sizes=[16], max_time_s=2
    )
    assert [(row.variant, row.batch_size, bool(row.samples_s)) for row in found.results] == [
        ("block", 16, True),
        ("versus", 16, True),
    ]
    (comparison,) = found.comparisons
    assert (comparison.b, comparison.verdict, comparison.paired) == ("versus", "slower", True)
    assert comparison.ratio > 2


def test_the_input_is_worked_out_where_none_is_given() -> None:
    block = ResidualSequential(Record(), nn.Linear(4, 4), Apply())
    found = rescli.benchmark(
        block, versus="plain", passes=["inference"], threads=1, min_time_s=0, max_time_s=1
    )
    assert [(row.variant, row.batch_size) for row in found.results] == [("block", 8), ("plain", 8)]
    with pytest.raises(SpecError, match="the input of ReLU cannot be worked out"):
        rescli.benchmark(nn.ReLU())


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(CommandLineError, match=r"passes=\['sideways'\]: expected names of passes"):
        rescli.benchmark(nn.Linear(4, 4), passes=["sideways"])
    with pytest.raises(CommandLineError, match="passes='step': expected names of passes"):
        rescli.benchmark(nn.Linear(4, 4), passes="step")
    with pytest.raises(CommandLineError, match="versus='other' is neither a module nor 'plain'"):
        rescli.benchmark(nn.Linear(4, 4), versus="other")


class Waits(nn.Module):
    """Spins for a while."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        until = time.perf_counter() + self.seconds
        while time.perf_counter() < until:
            pass
        return x


def test_a_wait_that_is_five_percent_longer_is_found_to_be_that() -> None:
    found = rescli.benchmark(
        Waits(1e-3),
        torch.ones(1),
        versus=Waits(1.05e-3),
        passes=["inference"],
        threads=1,
        min_time_s=0,
        max_time_s=4,
    )
    (comparison,) = found.comparisons
    assert comparison.ratio == pytest.approx(1.05, abs=0.01)
    assert comparison.verdict == "slower"
