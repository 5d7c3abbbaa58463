"""Blocks that several tests look at, each made anew so that no test sees what another left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from torchresidual import Apply, LearnableAlpha, Record, RecurrentWrapper, ResidualSequential

if TYPE_CHECKING:
    from collections.abc import Callable

    from rescli.graph.model import BlockGraph

Case = tuple[nn.Module, tuple[Tensor, ...]]


def plain_skip() -> Case:
    block = ResidualSequential(
        Record(name="in"), nn.Linear(64, 64), nn.ReLU(), nn.LayerNorm(64), Apply("add", "in")
    )
    return block, (torch.zeros(8, 64),)


def projected() -> Case:
    block = ResidualSequential(Record(True, "r"), nn.Linear(64, 32), Apply(record_name="r"))
    return block, (torch.zeros(8, 64),)


def highway() -> Case:
    return ResidualSequential(Record(), nn.Linear(16, 16), Apply("highway")), (torch.zeros(4, 16),)


def gated() -> Case:
    block = ResidualSequential(Record(), nn.Linear(16, 16), Apply("gated", alpha=LearnableAlpha(0.5)))
    return block, (torch.zeros(4, 16),)


def recurrent() -> Case:
    lstm = RecurrentWrapper(nn.LSTM(16, 32, batch_first=True))
    return ResidualSequential(Record(True), lstm, Apply()), (torch.zeros(4, 10, 16),)


def crossing() -> Case:
    block = ResidualSequential(
        Record(True, "input"),
        nn.Linear(64, 32),
        nn.ReLU(),
        Record(name="mid"),
        nn.Linear(32, 64),
        Apply(record_name="input"),
        nn.LayerNorm(64),
        nn.Linear(64, 32),
        Apply(record_name="mid"),
    )
    return block, (torch.zeros(8, 64),)


def nested() -> Case:
    inner = ResidualSequential(Record(name="b"), nn.Linear(16, 16), Apply(record_name="b"))
    block = ResidualSequential(Record(name="a"), inner, nn.Linear(16, 16), Apply(record_name="a"))
    return block, (torch.zeros(4, 16),)


def attention() -> Case:
    layer = nn.MultiheadAttention(100, 1, batch_first=True)
    return ResidualSequential(Record(), layer, Apply()), (torch.zeros(1, 1000, 100),)


def bare_lstm() -> Case:
    return nn.LSTM(10, 20), (torch.zeros(5, 3, 10),)


def basic_block() -> Case:
    shortcut = nn.Sequential(nn.Conv2d(64, 128, 1, 2, bias=False), nn.BatchNorm2d(128))
    block = ResidualSequential(
        Record(name="x"),
        nn.Conv2d(64, 128, 3, 2, 1, bias=False),
        nn.BatchNorm2d(128),
        nn.ReLU(),
        nn.Conv2d(128, 128, 3, 1, 1, bias=False),
        nn.BatchNorm2d(128),
        Apply("add", "x", projection=shortcut),
        nn.ReLU(),
    )
    return block, (torch.zeros(1, 64, 56, 56),)


class Layer(nn.Module):
    """A layer of the user's own: one weight, and any function of the input and the weight."""

    def __init__(self, function: Callable[[Tensor, Tensor], object]) -> None:
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.ones(8, 8))

    def forward(self, x: Tensor) -> object:
        return self.function(x, self.weight)


def edges_drawn(graph: BlockGraph) -> list[tuple[int, int]]:
    return [(edge.record_index, edge.apply_index) for edge in graph.edges]
