from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.parameter import is_lazy

from rescli.bench.parallel import settle, share_of
from rescli.bench.place import Place
from torchresidual import Apply, Record, ResidualSequential


def shares(items: int, size: int, batch_dim: int = 0) -> list[torch.Tensor]:
    shape = (items, 3) if batch_dim == 0 else (3, items)
    x = torch.arange(items * 3).reshape(shape)
    return [share_of([x], batch_dim, Place(rank, size, rank, size))[0] for rank in range(size)]


@pytest.mark.parametrize("batch_dim", [0, 1])
@pytest.mark.parametrize(("items", "size", "sizes"), [(8, 2, [4, 4]), (7, 3, [3, 2, 2]), (2, 2, [1, 1])])
def test_a_batch_is_shared_out_whole_and_evenly(
    items: int, size: int, sizes: list[int], batch_dim: int
) -> None:
    parts = shares(items, size, batch_dim)
    assert [part.size(batch_dim) for part in parts] == sizes
    assert all(part.is_contiguous() for part in parts)
    shape = (items, 3) if batch_dim == 0 else (3, items)
    assert torch.equal(torch.cat(parts, batch_dim), torch.arange(items * 3).reshape(shape))


def test_what_counts_no_items_goes_to_everybody() -> None:
    x, mask, temperature = torch.ones(4, 3), torch.ones(3, 3), torch.tensor(0.5)
    found = share_of([x, mask, temperature], 0, Place(1, 2, 1, 2))
    assert [tuple(tensor.shape) for tensor in found] == [(2, 3), (3, 3), ()]


def test_a_batch_with_too_few_items_is_refused() -> None:
    with pytest.raises(ValueError, match="a batch of 1 does not have an item for each of 2 processes"):
        share_of([torch.ones(1, 3)], 0, Place(0, 2, 0, 2))


def test_parameters_without_a_size_are_made_before_a_copy_needs_them() -> None:
    class Custom(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[..., :2]

    block = ResidualSequential(Record(need_projection=True), Custom(), Apply())
    assert any(map(is_lazy, block.parameters()))
    settle(block, [torch.ones(8, 4)])
    assert [tuple(parameter.shape) for parameter in block.parameters()] == [(2, 4), (2,)]
