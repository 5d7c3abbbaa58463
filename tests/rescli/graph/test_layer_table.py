from __future__ import annotations

import sys

import pytest
import torch
from torch import nn

from rescli.errors import CommandLineError
from rescli.graph.layer_table import layer_table


def test_the_table_has_the_layers_and_none_of_the_totals() -> None:
    block = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8)).train()
    table = layer_table(block, (torch.zeros(2, 4),))
    assert "├─Linear (0)" in table
    assert "[2, 8]" in table
    assert "40" in table
    assert "Total" not in table
    assert block.training
    assert block[1].num_batches_tracked == 0


def test_a_block_that_torchinfo_cannot_run_is_a_sentence() -> None:
    sentence = layer_table(nn.Linear(3, 3), (torch.zeros(2, 4),))
    assert sentence.startswith("torchinfo has no table of this block: ")


def test_without_numpy_the_table_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchinfo", None)
    with pytest.raises(
        CommandLineError, match=r"--layers: torchinfo.* needs torchinfo, and it is not installed"
    ):
        layer_table(nn.Linear(2, 2), [torch.zeros(1, 2)])
