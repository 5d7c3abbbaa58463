"""Whole blocks in other dtypes, under autocast, and with channels last."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tests.torchresidual.compiled_blocks import CASES, RECURRENT, Case
from torchresidual import Apply, LearnableAlpha, Record, ResidualSequential

ALL = {**CASES, "recurrent": RECURRENT}
TOLERANCE = {torch.float64: 1e-6, torch.float16: 1e-2, torch.bfloat16: 6e-2}


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("case", ALL.values(), ids=ALL)
def test_a_block_of_one_dtype_stays_in_it(case: Case, dtype: torch.dtype) -> None:
    block, x = case.build()
    expected = block(x)
    out = block.to(dtype)(x.to(dtype))
    assert out.dtype == dtype
    torch.testing.assert_close(out.float(), expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    out.sum().backward()
    assert {parameter.grad.dtype for parameter in block.parameters() if parameter.grad is not None} <= {dtype}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_under_autocast_a_block_keeps_its_values(case: Case) -> None:
    block, x = case.build()
    expected = block(x)
    with torch.autocast("cpu", torch.bfloat16):
        out = block(x)
    torch.testing.assert_close(out.float(), expected, rtol=6e-2, atol=6e-2)
    out.sum().backward()
    assert all(parameter.grad is not None for parameter in block.parameters())
    assert {parameter.grad.dtype for parameter in block.parameters() if parameter.grad is not None} <= {
        torch.float32
    }


class Layouts(nn.Module):
    """Notes whether what passes has its channels last."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[bool] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(x.is_contiguous(memory_format=torch.channels_last))
        return x


@pytest.mark.parametrize("operation", ["add", "concat", "multiply", "gated", "highway"])
def test_channels_that_come_last_stay_last_behind_a_skip(operation: str) -> None:
    watch = Layouts()
    block = ResidualSequential(
        Record(need_projection=True),
        nn.Conv2d(3, 8, 3, stride=2, padding=1),
        nn.ReLU(inplace=True),
        Apply(operation, alpha=LearnableAlpha(0.3) if operation not in ("concat", "highway") else 1.0),
        watch,
    )
    x = torch.randn(2, 3, 9, 9)
    expected = block(x)
    out = block.to(memory_format=torch.channels_last)(  # type: ignore[call-overload]  # torch knows it
        x.to(memory_format=torch.channels_last)
    )
    assert watch.seen == [False, True]
    torch.testing.assert_close(out, expected)
