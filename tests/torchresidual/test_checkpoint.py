"""Activation checkpointing of whole blocks, and what cannot be recomputed."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from tests.torchresidual.compiled_blocks import CASES, Case
from torchresidual import Apply, OutsideBlockError, Record, ResidualSequential, UnknownRecordError


def gradients(out: Tensor, x: Tensor, block: nn.Module) -> list[Tensor]:
    block.zero_grad()
    x.grad = None
    out.square().sum().backward()  # type: ignore[no-untyped-call]  # torch leaves it so
    return [tensor.grad for tensor in (x, *block.parameters()) if tensor.grad is not None]


@pytest.mark.parametrize("reentrant", [True, False], ids=["reentrant", "non-reentrant"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_checkpointed_block_has_the_gradients_of_the_plain_one(case: Case, reentrant: bool) -> None:
    block, x = case.build()
    x.requires_grad_()
    expected = gradients(block(x), x, block)
    got = gradients(checkpoint(block, x, use_reentrant=reentrant), x, block)
    torch.testing.assert_close(got, expected)
    assert len(got) == 1 + len(list(block.parameters()))


def test_a_cut_between_record_and_apply_is_named() -> None:
    block = ResidualSequential(Record(), nn.Linear(8, 8), nn.ReLU(), Apply())
    with pytest.raises(OutsideBlockError, match="the pieces that checkpoint_sequential cuts do not"):
        checkpoint_sequential(block, 2, torch.randn(2, 8), use_reentrant=False)  # type: ignore[no-untyped-call]  # torch leaves it so


class Checkpointed(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = checkpoint(self.inner, x, use_reentrant=False)
        return out


def test_an_inner_block_that_reads_an_outer_record_cannot_be_recomputed_and_says_so() -> None:
    inner = ResidualSequential(nn.Linear(8, 8), Apply("multiply", "outer"), nn.Linear(8, 8))
    block = ResidualSequential(Record(name="outer"), Checkpointed(inner))
    out = block(torch.randn(2, 8, requires_grad=True))
    with pytest.raises(UnknownRecordError, match=r"record_name='outer'.* at '1'.*must run before it"):
        out.sum().backward()
