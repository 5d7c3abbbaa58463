from __future__ import annotations

import pytest
from torch import nn

from rescli.graph.details import detail_of, type_name


@pytest.mark.parametrize(
    ("module", "detail"),
    [
        (nn.Linear(64, 32), "64 -> 32"),
        (nn.Bilinear(2, 3, 4), "2, 3 -> 4"),
        (nn.Conv2d(64, 128, 3, stride=2, padding=1), "64 -> 128 k3 s2 p1"),
        (nn.Conv1d(64, 128, 1), "64 -> 128 k1"),
        (nn.Conv2d(8, 8, (3, 5), groups=8, dilation=2), "8 -> 8 k3x5 d2 g8"),
        (nn.Conv2d(8, 8, 3, padding="same"), "8 -> 8 k3 psame"),
        (nn.ConvTranspose2d(8, 4, 2, 2), "8 -> 4 k2 s2"),
        (nn.MaxPool2d(3, 2, 1), "k3 s2 p1"),
        (nn.AvgPool1d(2), "k2"),
        (nn.AvgPool1d(2, 1), "k2 s1"),
        (nn.MaxPool2d((2, 3), (2, 3)), "k2x3"),
        (nn.LSTM(4, 8, 2, bidirectional=True), "4 -> 8 x2 bidirectional"),
        (nn.LSTM(4, 8, proj_size=3), "4 -> 3"),
        (nn.GRUCell(4, 8), "4 -> 8"),
        (nn.BatchNorm2d(7), "7"),
        (nn.LayerNorm((2, 3)), "2x3"),
        (nn.GroupNorm(2, 8), "8 in 2 groups"),
        (nn.Embedding(10, 4), "10 x 4"),
        (nn.MultiheadAttention(8, 2), "8, 2 heads"),
        (nn.MultiheadAttention(8, 1), "8, 1 head"),
        (nn.Upsample(scale_factor=2), "x2 nearest"),
        (nn.Upsample(size=(4, 6)), "to 4x6 nearest"),
        (nn.Dropout(0.25), "p=0.25"),
        (nn.ReLU(inplace=True), "in place"),
        (nn.ReLU(), ""),
        (nn.GELU(), ""),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_sizes_are_written_in_short(module: nn.Module, detail: str) -> None:
    assert detail_of(module) == detail


def test_a_subclass_is_written_like_the_class_it_is_made_from() -> None:
    class Wide(nn.Linear): ...

    assert (type_name(Wide(2, 8)), detail_of(Wide(2, 8))) == ("Wide", "2 -> 8")


def test_the_class_that_parametrizations_make_up_is_not_shown() -> None:
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
    assert type(layer).__name__ == "ParametrizedLinear"
    assert (type_name(layer), detail_of(layer)) == ("Linear", "2 -> 3")
