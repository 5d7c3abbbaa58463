"""The table of what a block costs: its forms compute the same, and a block that is slow fails."""

from __future__ import annotations

import importlib.util
import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from types import ModuleType

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "overhead.py"


@pytest.fixture(scope="module")
def overhead() -> ModuleType:
    spec = importlib.util.spec_from_file_location("overhead", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("alpha", ["1", "0.3", "learned"])
@pytest.mark.parametrize("operation", ["add", "concat", "multiply", "gated", "highway"])
def test_all_forms_of_a_cell_compute_the_same(overhead: ModuleType, operation: str, alpha: str) -> None:
    torch.manual_seed(0)
    modules = overhead.variants(operation, alpha, 8, None)
    x = torch.randn(2, 8)
    expected = modules["ours"](x)
    for name, module in modules.items():
        if name != "no skip":
            torch.testing.assert_close(module(x), expected, msg=name)


@pytest.mark.parametrize("shape", ["block in block", "nested Sequential", "custom layer"])
def test_blocks_of_special_shapes_compute_the_same_too(overhead: ModuleType, shape: str) -> None:
    modules = overhead.shaped(shape, 8)
    x = torch.randn(2, 8)
    torch.testing.assert_close(modules["hand: x + r"](x), modules["ours"](x))


def test_a_slow_block_fails_and_an_equal_one_does_not(overhead: ModuleType) -> None:
    class Slow(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            time.sleep(0.002)
            return x

    layer = nn.Identity()
    samples = overhead.measure(
        {"ours": Slow(), "hand": layer, "again": layer}, torch.zeros(1), "forward", 8, random.Random(0)
    )
    _, low, _ = overhead.ratio(samples["ours"], samples["hand"], random.Random(0))
    assert low > overhead.bar_of("add", "forward", "4x16")
    _, low, high = overhead.ratio([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], random.Random(0))
    assert (low, high) == (1.0, 1.0)
