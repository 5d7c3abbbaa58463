from __future__ import annotations

import gc
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn

from rescli.bench.allocations import add_up_allocations, trace_memory
from rescli.bench.passes import Forward, Inference, Training

if TYPE_CHECKING:
    from collections.abc import Sequence

KIB = 1024
# 256 KiB of float32.
SIDE = 256
FULL = 4 * SIDE * SIDE


@pytest.mark.parametrize(
    ("amounts", "peaks", "left"),
    [
        ([], [], 0),
        ([None, 5, -5, None], [0, 5], 0),
        ([None, 5, 7, -5, None, 1, None], [0, 12, 8], 8),
        ([100, -100, None, 1, None], [100, 1], 1),
    ],
)
def test_allocations_are_followed_from_mark_to_mark(
    amounts: Sequence[int | None], peaks: list[int], left: int
) -> None:
    assert add_up_allocations(amounts) == (peaks, left)


def image() -> Tensor:
    return torch.ones(SIDE, SIDE)


def test_one_output_is_the_peak_of_a_relu_and_nothing_stays() -> None:
    use = trace_memory(Inference(nn.ReLU(), [image()]))["inference"]
    assert (use.peak_bytes, use.retained_bytes) == (FULL, 0)


def test_garbage_of_earlier_is_not_taken_for_memory_that_is_given_back(
    capfd: pytest.CaptureFixture[str],
) -> None:
    class Churns(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            if gc.isenabled():
                gc.collect()  # as it comes about after so many new objects
            return x.relu()

    class Knot:
        """Keeps a tensor until a collection."""

        def __init__(self) -> None:
            self.tensor, self.self = torch.ones(2 * SIDE, SIDE), self

    assert gc.isenabled()
    Knot()
    use = trace_memory(Inference(Churns(), [image()]))["inference"]
    assert (use.peak_bytes, use.retained_bytes) == (FULL, 0)
    # PyTorch grumbles about memory of which it has not seen the beginning.
    assert capfd.readouterr().err == ""
    assert gc.isenabled()


def test_without_autograd_a_layer_is_freed_when_the_next_has_used_it() -> None:
    chain = nn.Sequential(nn.ReLU(), nn.ReLU(), nn.ReLU(), nn.ReLU())
    # Sequential holds the input of the layer that runs; two at a time, whatever the depth.
    assert trace_memory(Inference(chain, [image()]))["inference"].peak_bytes == 2 * FULL
    # With it, every output is kept for the way back.
    assert trace_memory(Forward(chain, [image()]))["forward"].peak_bytes == 4 * FULL


def test_what_an_operation_takes_for_itself_is_seen() -> None:
    class Tall(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            # Half of the output's size comes and goes inside.
            scratch = torch.empty(SIDE // 2, SIDE)
            del scratch
            return x.new_empty(1)

    use = trace_memory(Inference(Tall(), [image()]))["inference"]
    assert use.peak_bytes == FULL // 2


def test_a_step_of_a_linear_layer_takes_what_is_known_on_paper() -> None:
    layer = nn.Linear(SIDE, SIDE, bias=False)
    ones = [torch.ones(SIDE, SIDE)]
    found = trace_memory(Training(layer, [image()], ones=ones))
    # Forward: the output. Backward: beside it the gradient of the weight, and no second copy of either.
    assert found["forward"].peak_bytes == FULL
    assert found["backward"].peak_bytes == found["step"].peak_bytes == 2 * FULL
    assert {use.retained_bytes for use in found.values()} == {0}


def test_a_tensor_that_is_kept_on_purpose_is_reported_as_retained() -> None:
    class Keeps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kept: list[Tensor] = []

        def forward(self, x: Tensor) -> Tensor:
            self.kept.append(x.relu())
            return x.sigmoid()

    use = trace_memory(Inference(Keeps(), [image()]))["inference"]
    assert (use.peak_bytes, use.retained_bytes) == (2 * FULL, FULL)


def test_the_profiler_says_nothing_on_stderr_and_leaves_the_environment() -> None:
    code = (
        "import os, torch; from torch import nn; from rescli.bench.allocations import trace_memory; "
        "from rescli.bench.passes import Inference; "
        "print(trace_memory(Inference(nn.ReLU(), [torch.ones(4)]))['inference'].peak_bytes, "
        "'KINETO_LOG_LEVEL' in os.environ)"
    )
    environ = {name: value for name, value in os.environ.items() if name != "KINETO_LOG_LEVEL"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environ
    )
    assert (done.stdout, done.stderr) == ("16 False\n", "")
