"""The table of what a block costs: its forms compute the same, and a block that is slow fails."""

from __future__ import annotations

import json
import random
import sys
import time

import pytest
import torch
from torch import Tensor, nn

from benchmarks import forms, overhead


@pytest.mark.parametrize("alpha", forms.ALPHAS)
@pytest.mark.parametrize("operation", forms.OPERATIONS)
def test_all_forms_of_a_cell_compute_the_same(operation: str, alpha: str) -> None:
    if operation in ("concat", "highway") and alpha != "1":
        return  # alpha has no part in them
    torch.manual_seed(0)
    found = forms.forms_of(operation, alpha, 8)
    x = torch.randn(2, 8)
    for name, module in {**found.hand, "fused": found.fused}.items():
        if module is not None:
            torch.testing.assert_close(module(x), found.ours(x), msg=name)


@pytest.mark.parametrize("shape", forms.SHAPES)
def test_blocks_of_special_shapes_compute_the_same_too(shape: str) -> None:
    found = forms.forms_of_shape(shape, 8)
    x = torch.randn(2, 8)
    torch.testing.assert_close(found.hand["x + r"](x), found.ours(x))


class Slow(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        time.sleep(0.002)
        return x


def test_a_slow_block_fails_and_an_equal_one_does_not() -> None:
    layer, cell = nn.Identity(), overhead.Cell("add", "1", "4x16", "forward", 1)
    slow = overhead.row_of(
        cell, forms.Forms(Slow(), {"x": layer}, layer), torch.zeros(1), 8, random.Random(0)
    )
    assert slow.fails
    assert slow.best == "x"
    assert overhead.ratio([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], random.Random(0)) == (1.0, 1.0, 1.0)


def test_the_best_form_is_the_fastest() -> None:
    cell = overhead.Cell("add", "1", "4x16", "inference", 1)
    layer = nn.Identity()
    found = forms.Forms(layer, {"slow": Slow(), "fast": layer}, layer)
    assert overhead.row_of(cell, found, torch.zeros(1), 5, random.Random(0)).best == "fast"


def test_bars_are_wider_for_small_sizes_and_special_shapes() -> None:
    bars = {
        (operation, size): overhead.Cell(operation, "1", size, "step", 1).bar
        for operation in ("add", "custom layer")
        for size in ("4x16", "64x256")
    }
    assert bars == {
        ("add", "4x16"): 1.08,
        ("add", "64x256"): 1.02,
        ("custom layer", "4x16"): 1.15,
        ("custom layer", "64x256"): 1.05,
    }


def test_the_table_is_also_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    threads = torch.get_num_threads()
    options = "--operations add concat --alphas 1 --sizes 4x16 --passes inference step --threads 1 --blocks 5"
    try:
        monkeypatch.setattr(sys, "argv", ["overhead.py", *options.split(), "--json"])
        overhead.main()
        found = json.loads(capsys.readouterr().out)
        monkeypatch.setattr(sys, "argv", ["overhead.py", *options.split()])
        overhead.main()
    finally:
        torch.set_num_threads(threads)
    assert [(row["operation"], row["measured"]) for row in found] == [
        ("add", "inference"),
        ("add", "step"),
        ("concat", "inference"),
        ("concat", "step"),
    ]
    assert all(row["low"] <= row["ratio"] <= row["high"] for row in found)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert lines[0] == overhead.HEAD
