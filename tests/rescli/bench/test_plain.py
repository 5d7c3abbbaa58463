from __future__ import annotations

from collections import OrderedDict

import pytest
import torch
from torch import Tensor, nn

from rescli.bench.plain import NothingToTakeOutError, without_skips
from torchresidual import Apply, LearnableAlpha, Record, ResidualSequential


def test_records_and_applies_are_gone_with_all_they_bring() -> None:
    block = ResidualSequential(
        Record(need_projection=True),
        nn.Linear(4, 6),
        Apply(alpha=LearnableAlpha(0.5)),
        Record(),
        nn.Linear(6, 6),
        Apply("highway"),
    )
    plain = without_skips(block)
    assert [name for name, _ in plain.named_parameters()] == ["1.weight", "1.bias", "4.weight", "4.bias"]
    x = torch.randn(3, 4)
    assert torch.equal(plain(x), block[4](block[1](x)))


def test_the_block_itself_stays_as_it_is() -> None:
    block = ResidualSequential(Record(), nn.Linear(4, 4), Apply())
    x = torch.randn(3, 4)
    before = block(x)
    without_skips(block)
    assert len(block) == 3
    assert torch.equal(block(x), before)


def test_names_containers_and_the_mode_stay() -> None:
    block = ResidualSequential(
        OrderedDict(
            start=Record(name="a"),
            inner=ResidualSequential(Record(), nn.Linear(4, 4), Apply()),
            deep=nn.Sequential(nn.ReLU(), Apply(record_name="a")),
        )
    ).eval()
    plain = without_skips(block)
    assert isinstance(plain, ResidualSequential)
    assert [name for name, _ in plain.named_modules()] == ["", "inner", "inner.1", "deep", "deep.0"]
    assert not plain.training


def test_attention_in_a_block_still_runs_in_place() -> None:
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    block = ResidualSequential(Record(), attention, Apply()).eval()
    x = torch.randn(2, 5, 8)
    torch.testing.assert_close(without_skips(block)(x), attention(x, x, x, need_weights=False)[0])


def test_a_skip_that_code_calls_by_name_becomes_an_identity() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.start, self.layer, self.end = Record(), nn.Linear(4, 4), Apply()

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.end(self.layer(self.start(x)))
            return out

    own = Own()
    x = torch.randn(3, 4)
    assert torch.equal(without_skips(ResidualSequential(own))(x), own.layer(x))


def test_a_layer_that_stands_twice_stands_twice() -> None:
    layer = nn.Linear(4, 4)
    mark = Record()
    plain = without_skips(ResidualSequential(mark, layer, Apply(), mark, layer, Apply()))
    assert len(list(plain.children())) == 1
    x = torch.randn(3, 4)
    assert torch.equal(plain(x), layer(layer(x)))


@pytest.mark.parametrize("module", [nn.Linear(4, 4), ResidualSequential(nn.ReLU())])
def test_a_block_without_skips_is_told_so(module: nn.Module) -> None:
    with pytest.raises(NothingToTakeOutError, match="the block has neither Record nor Apply"):
        without_skips(module)
