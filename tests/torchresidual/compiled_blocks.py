"""Blocks of every kind, for the tests of what writes a block down: compilers, exporters, torch.fx."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from torchresidual import Apply, LearnableAlpha, Record, RecurrentWrapper, ResidualSequential

if TYPE_CHECKING:
    from collections.abc import Callable


class Case(NamedTuple):
    """A block and the shape of one item of its input, without the batch dimension."""

    make: Callable[[], ResidualSequential]
    item: tuple[int, ...]

    def build(self, batch: int = 3) -> tuple[ResidualSequential, Tensor]:
        """Return the block in evaluation mode and an input."""
        torch.manual_seed(0)
        return self.make().eval(), self.input(batch)

    def input(self, batch: int) -> Tensor:
        """Return an input of a batch size."""
        return torch.randn(batch, *self.item, generator=torch.Generator().manual_seed(batch))


def _around_linear(apply: Callable[[], Apply]) -> ResidualSequential:
    return ResidualSequential(Record(), nn.Linear(8, 8), apply())


def _projected() -> ResidualSequential:
    return ResidualSequential(
        Record(need_projection=True),
        nn.Linear(8, 16),
        nn.ReLU(inplace=True),
        Apply(alpha=LearnableAlpha(0.3)),
    )


def _convolutions() -> ResidualSequential:
    return ResidualSequential(
        Record(need_projection=True, name="a"),
        nn.Conv1d(4, 8, 3, padding=1, stride=2),
        nn.BatchNorm1d(8),
        nn.Sequential(Record(name="m"), nn.Conv1d(8, 8, 1)),
        Apply("concat", "m"),
        nn.Conv1d(16, 8, 1),
        Apply("highway", "a"),
    )


def _nested() -> ResidualSequential:
    inner = ResidualSequential(Record(), nn.Linear(8, 8), Apply(), Apply(record_name="outer"))
    return ResidualSequential(Record(name="outer"), inner, Apply(scale=LearnableAlpha(0.1, -1, 1)))


def _attention() -> ResidualSequential:
    return ResidualSequential(
        Record(), nn.MultiheadAttention(8, 2, batch_first=True), Apply(), nn.LayerNorm(8)
    )


def _in_place() -> ResidualSequential:
    return ResidualSequential(Record(), nn.ReLU(inplace=True), Apply(), nn.Linear(8, 8))


def _recurrent() -> ResidualSequential:
    return ResidualSequential(Record(), RecurrentWrapper(nn.LSTM(8, 8, batch_first=True)), Apply())


CASES: dict[str, Case] = {
    **{
        name: Case(partial(_around_linear, partial(Apply, name)), (8,))
        for name in ("add", "concat", "multiply", "highway")
    },
    # At its default alpha of 1 it is the skip alone.
    "gated": Case(partial(_around_linear, partial(Apply, "gated", alpha=0.3)), (8,)),
    "learned alpha in log space": Case(
        partial(_around_linear, lambda: Apply("gated", alpha=LearnableAlpha(0.01, 1e-4, 1.0))), (8,)
    ),
    "tensors": Case(
        partial(_around_linear, lambda: Apply(alpha=nn.Parameter(torch.rand(8)), scale=torch.rand(8))), (8,)
    ),
    "projection": Case(_projected, (8,)),
    "convolutions": Case(_convolutions, (4, 15)),
    "nested": Case(_nested, (8,)),
    "attention": Case(_attention, (5, 8)),
    "in place": Case(_in_place, (8,)),
}
RECURRENT = Case(_recurrent, (5, 8))
