"""The count of what a stack holds: exact for what is known on paper, and a stack that keeps a tensor fails."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn

from benchmarks import memory

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("operation", memory.OPERATIONS)
def test_a_stack_holds_what_the_one_written_by_hand_holds(operation: str) -> None:
    alpha = "1" if operation in ("concat", "highway") else "learned"  # it has no part in those
    ours, hand = memory.stacks(operation, alpha, 2, 16)
    x = torch.randn(4, 16)
    torch.testing.assert_close(ours(x), hand(x))
    row = memory.row_of(operation, alpha, ours, hand, x)
    assert row.ratios == (1.0, 1.0, 1.0)
    assert not row.fails


class Keeps(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        self.last = x * 1
        return self.last * 2


class Copies(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        copy = x.clone()
        out: Tensor = self.inner(x)
        return out + 0 * copy


@pytest.mark.parametrize(
    ("planted", "says"),
    [
        (lambda hand: nn.Sequential(hand, Keeps()), "left"),
        (lambda hand: nn.Sequential(Copies(hand)), "peak"),
    ],
    ids=["keeps a tensor", "holds a copy"],
)
def test_a_stack_that_holds_more_fails(planted: Callable[[nn.Module], nn.Module], says: str) -> None:
    _, hand = memory.stacks("add", "1", 1, 16)
    row = memory.row_of("add", "1", planted(hand), hand, torch.randn(4, 16))
    assert row.fails
    assert {"left": row.left_bytes > 0, "peak": row.ratios[0] > memory.MOST} == {
        "left": says == "left",
        "peak": says == "peak",
    }


def test_what_autograd_saves_is_counted_once_and_without_parameters() -> None:
    layer = nn.Sequential(nn.Linear(16, 16), nn.Tanh())
    # The input of the Linear and the output of the Tanh.
    assert memory.saved(layer, torch.randn(4, 16)) == 2 * 4 * 16 * 4


def test_the_table_is_also_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(memory, "OPERATIONS", ("concat",))
    monkeypatch.setattr(sys, "argv", ["memory.py", "--depth", "1", "--size", "2x4", "--json"])
    assert memory.main() == 0
    assert [row["operation"] for row in json.loads(capsys.readouterr().out)] == ["concat"]
    monkeypatch.setattr(sys, "argv", ["memory.py", "--depth", "1", "--size", "2x4"])
    assert memory.main() == 0
    assert capsys.readouterr().out.splitlines()[1].endswith("ok")
