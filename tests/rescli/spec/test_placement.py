"""Blocks that are given another type or another device."""

from __future__ import annotations

import torch
from torch import nn

from rescli.spec.placement import place


def test_a_block_that_is_where_it_should_be_is_not_copied() -> None:
    block = nn.Linear(2, 2)
    assert place(block, dtype=None, device=torch.device("cpu")) is block


def test_another_device_gets_a_copy() -> None:
    block = nn.Linear(2, 2)
    moved = place(block, dtype="float64", device=torch.device("meta"))
    assert moved.weight.is_meta
    assert moved.weight.dtype == torch.float64
    assert block.weight.device.type == "cpu"
    assert block.weight.dtype == torch.float32
