from __future__ import annotations

import torch
from torch import Tensor, nn

from rescli.graph.backward import run_backward
from rescli.graph.diagnostics.evidence import BackwardRun
from torchresidual import RecurrentWrapper, ResidualSequential


class Several(nn.Module):
    """Gives nested outputs, each from a layer of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x: Tensor) -> object:
        return self.a(x), {"b": [self.b(x), None], "complex": torch.complex(self.c(x), x)}


def test_every_output_counts_however_deep_it_lies() -> None:
    assert run_backward(Several(), [torch.zeros(1, 2)]) == BackwardRun()


def test_extras_of_a_block_count_too() -> None:
    block = ResidualSequential(RecurrentWrapper(nn.LSTM(2, 2), return_hidden=True))
    assert run_backward(block, [torch.zeros(3, 1, 2)]) == BackwardRun()


def test_a_batch_norm_that_wants_more_than_one_item_is_run_in_evaluation_mode() -> None:
    assert run_backward(nn.Sequential(nn.BatchNorm1d(2)), [torch.zeros(1, 2)]) == BackwardRun()


def test_what_no_output_depends_on_is_named_as_the_block_names_it() -> None:
    class Unused(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused, self.frozen = nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)
            self.frozen.requires_grad_(False)

        def forward(self, x: Tensor) -> Tensor:
            used: Tensor = self.used(x)
            return used

    assert run_backward(nn.Sequential(Unused()), [torch.zeros(1, 2)]) == BackwardRun(
        without_gradient=("0.unused.weight", "0.unused.bias")
    )


def test_a_block_that_cannot_run_forward_is_not_judged() -> None:
    assert run_backward(nn.Linear(3, 3), [torch.zeros(1, 2)]) is None


def test_a_large_block_runs_without_data() -> None:
    with torch.device("meta"):
        block = nn.Sequential(nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 4096))
    assert run_backward(block, [torch.zeros(1, 4096)]) == BackwardRun()
