"""What the first layers of a block say about its input."""

from __future__ import annotations

import pytest
from torch import nn

from rescli.spec.layers import expected_input
from torchresidual import Apply, LearnableAlpha, Record, RecurrentWrapper, ResidualSequential


class Named(nn.Module):
    """A module of a user's own: its children in the order in which they were set."""

    def __init__(self, **children: nn.Module) -> None:
        super().__init__()
        for name, child in children.items():
            self.add_module(name, child)


class Swish(nn.Module):
    """A layer without children that says nothing about sizes."""


class OwnLSTM(nn.LSTM):
    """A subclass is what its base is."""


@pytest.mark.parametrize(
    ("block", "shape"),
    [
        (nn.Linear(64, 32), (8, 64)),
        (nn.Conv1d(3, 4, 3), (8, 3, 64)),
        (nn.Conv2d(3, 4, 3), (8, 3, 32, 32)),
        (nn.Conv3d(3, 4, 3), (8, 3, 16, 16, 16)),
        (nn.ConvTranspose2d(6, 4, 3), (8, 6, 32, 32)),
        (nn.Embedding(100, 16), (8, 16)),
        (nn.EmbeddingBag(100, 16), (8, 16)),
        (nn.LSTM(5, 7, batch_first=True), (8, 16, 5)),
        (nn.LSTM(5, 7), (16, 8, 5)),
        (nn.GRU(5, 7), (16, 8, 5)),
        (nn.RNN(5, 7, batch_first=True), (8, 16, 5)),
        (OwnLSTM(5, 7), (16, 8, 5)),
        (nn.GRUCell(5, 7), (8, 5)),
        (nn.TransformerEncoderLayer(8, 2, 16), (16, 8, 8)),
        (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (8, 16, 8)),
        (nn.LayerNorm(64), (8, 64)),
        (nn.LayerNorm((4, 64)), (8, 4, 64)),
        (nn.RMSNorm(64), (8, 64)),
        (nn.BatchNorm1d(6), (8, 6)),
        (nn.BatchNorm2d(6), (8, 6, 32, 32)),
        (nn.BatchNorm3d(6), (8, 6, 16, 16, 16)),
        (nn.InstanceNorm1d(6), (8, 6, 64)),
        (nn.InstanceNorm2d(6), (8, 6, 32, 32)),
        (nn.GroupNorm(2, 6), (8, 6)),
    ],
)
def test_a_layer_tells_its_own_input(block: nn.Module, shape: tuple[int, ...]) -> None:
    expected = expected_input(block)
    assert expected is not None
    assert expected.shapes == (shape,)


@pytest.mark.parametrize(
    ("block", "shapes", "batch_dim"),
    [
        (nn.Bilinear(3, 5, 7), ((8, 3), (8, 5)), 0),
        (nn.MultiheadAttention(8, 2), ((16, 8, 8),) * 3, 1),
        (
            nn.MultiheadAttention(8, 2, kdim=4, vdim=6, batch_first=True),
            ((8, 16, 8), (8, 16, 4), (8, 16, 6)),
            0,
        ),
        (nn.Transformer(8, 2, 1, 1, 16, batch_first=True), ((8, 16, 8),) * 2, 0),
        (nn.TransformerDecoderLayer(8, 2, 16, batch_first=True), ((8, 16, 8),) * 2, 0),
    ],
)
def test_some_layers_take_several_inputs(
    block: nn.Module, shapes: tuple[tuple[int, ...], ...], batch_dim: int
) -> None:
    expected = expected_input(block)
    assert expected is not None
    assert (expected.shapes, expected.batch_dim) == (shapes, batch_dim)


@pytest.mark.parametrize(
    ("block", "shape", "batch_dim"),
    [
        # Whatever keeps shapes is walked through.
        (ResidualSequential(Record(), nn.ReLU(), nn.Dropout(), nn.Linear(64, 64), Apply()), (8, 64), 0),
        (nn.Sequential(nn.Identity(), nn.Sequential(nn.Flatten(), nn.Linear(9, 2))), (8, 9), 0),
        (ResidualSequential(Record(), ResidualSequential(Record(), nn.Linear(5, 5), Apply())), (8, 5), 0),
        (ResidualSequential(RecurrentWrapper(nn.LSTM(4, 4, batch_first=True))), (8, 16, 4), 0),
        (ResidualSequential(RecurrentWrapper(nn.LSTM(4, 4))), (16, 8, 4), 1),
        (nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(3, 4, 3)), (8, 3, 32, 32), 0),
        # What lies in an Apply sees the recorded tensor, not the input.
        (
            ResidualSequential(
                Record(), Apply(projection=nn.Linear(3, 3), alpha=LearnableAlpha()), nn.Linear(5, 5)
            ),
            (8, 5),
            0,
        ),
        # Other modules: their children as defined.
        (Named(act=Swish(), first=nn.Conv1d(2, 4, 3), last=nn.Linear(7, 1)), (8, 2, 64), 0),
        (Named(layers=nn.ModuleList([nn.Linear(7, 1)])), (8, 7), 0),
        (nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1), (8, 16, 8), 0),
        # A later layer wants sequences.
        (nn.Sequential(nn.LayerNorm(8), nn.MultiheadAttention(8, 2, batch_first=True)), (8, 16, 8), 0),
        (nn.Sequential(nn.LayerNorm(8), nn.MultiheadAttention(8, 2)), (16, 8, 8), 1),
        (nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.LSTM(8, 8)), (16, 8, 3), 1),
        (nn.Sequential(nn.Embedding(50, 8), nn.LSTM(8, 8)), (16, 8), 1),
        (nn.Sequential(nn.Embedding(50, 8), nn.LSTM(8, 8, batch_first=True)), (8, 16), 0),
        (nn.Sequential(nn.Linear(10, 20), nn.Conv1d(4, 6, 3)), (8, 4, 10), 0),
        # A later layer wants pictures.
        (nn.Sequential(nn.GroupNorm(2, 6), nn.SiLU(), nn.Conv2d(6, 6, 3)), (8, 6, 32, 32), 0),
        (nn.Sequential(nn.BatchNorm1d(6), nn.ReLU(), nn.Conv1d(6, 6, 3)), (8, 6, 64), 0),
        # ... but not behind something that changes what the dimensions are.
        (nn.Sequential(nn.Linear(8, 8), nn.Flatten(), nn.LSTM(8, 8)), (8, 8), 0),
        (nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.LSTM(8, 8)), (8, 8), 0),
    ],
)
def test_the_layers_are_walked_until_the_input_is_known(
    block: nn.Module, shape: tuple[int, ...], batch_dim: int
) -> None:
    expected = expected_input(block)
    assert expected is not None
    assert (expected.shapes, expected.batch_dim) == ((shape,), batch_dim)


def test_indices_stay_below_the_length_of_the_table() -> None:
    expected = expected_input(nn.Sequential(nn.Dropout(), nn.Embedding(50, 8)))
    assert expected is not None
    assert expected.below == 50


@pytest.mark.parametrize("block", [nn.ReLU(), nn.Sequential(), Swish(), nn.LazyLinear(4), nn.Identity()])
def test_nothing_is_guessed_where_no_layer_tells(block: nn.Module) -> None:
    assert expected_input(block) is None


def test_a_lazy_layer_leaves_the_word_to_the_next() -> None:
    expected = expected_input(nn.Sequential(nn.LazyBatchNorm1d(), nn.Linear(7, 1)))
    assert expected is not None
    assert expected.shapes == ((8, 7),)
