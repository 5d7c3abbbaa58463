from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn

from tests.torchresidual.toys import Unknown
from torchresidual import RecurrentWrapper
from torchresidual.layout import LAST, RULES, Form, Stream, Variable, after

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = {1: (12,), 2: (12, 8), 3: (8, 6, 10)}


def channels(count: int, rank: int) -> Tensor:
    return torch.randn(2, count, *SIZES[rank])


def features(count: int) -> Tensor:
    return torch.randn(2, 5, count)


# (layer, an input for it, the sizes that it tells before and after itself)
Row = tuple["Callable[[], nn.Module]", "Callable[[], Tensor]", int | None, int | None]

LAYERS: dict[str, Row] = {
    "Linear": (lambda: nn.Linear(4, 6), lambda: features(4), 4, 6),
    "LazyLinear": (lambda: nn.LazyLinear(6), lambda: features(4), None, 6),
    "Embedding": (lambda: nn.Embedding(9, 6), lambda: torch.randint(9, (2, 5)), None, 6),
    "EmbeddingBag": (lambda: nn.EmbeddingBag(9, 6), lambda: torch.randint(9, (2, 5)), None, 6),
    "LSTM": (lambda: nn.LSTM(4, 6), lambda: features(4), 4, 6),
    "GRU": (lambda: nn.GRU(4, 6, num_layers=2), lambda: features(4), 4, 6),
    "RNN": (lambda: nn.RNN(4, 6), lambda: features(4), 4, 6),
    "bidirectional LSTM": (lambda: nn.LSTM(4, 6, bidirectional=True), lambda: features(4), 4, 12),
    "LSTM with projections": (lambda: nn.LSTM(4, 6, proj_size=3), lambda: features(4), 4, 3),
    "bidirectional LSTM with projections": (
        lambda: nn.LSTM(4, 6, proj_size=3, bidirectional=True),
        lambda: features(4),
        4,
        6,
    ),
    "RecurrentWrapper": (lambda: RecurrentWrapper(nn.GRU(4, 6)), lambda: features(4), 4, 6),
    "TransformerEncoderLayer": (lambda: nn.TransformerEncoderLayer(4, 2, 8), lambda: features(4), 4, 4),
    "TransformerEncoder": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 2),
        lambda: features(4),
        4,
        4,
    ),
    "PixelShuffle": (lambda: nn.PixelShuffle(2), lambda: channels(8, 2), None, None),
    "Conv1d": (lambda: nn.Conv1d(4, 6, 3, padding=1), lambda: channels(4, 1), 4, 6),
    "Conv2d": (lambda: nn.Conv2d(4, 6, 3, padding="same"), lambda: channels(4, 2), 4, 6),
    "Conv3d": (lambda: nn.Conv3d(4, 6, 1, groups=2), lambda: channels(4, 3), 4, 6),
    "LazyConv2d": (lambda: nn.LazyConv2d(6, 1), lambda: channels(4, 2), None, 6),
    "ConvTranspose1d": (lambda: nn.ConvTranspose1d(4, 6, 1), lambda: channels(4, 1), 4, 6),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(4, 6, 1), lambda: channels(4, 2), 4, 6),
    "ConvTranspose3d": (lambda: nn.ConvTranspose3d(4, 6, 1), lambda: channels(4, 3), 4, 6),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(4), lambda: channels(4, 1), 4, 4),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(4), lambda: channels(4, 2), 4, 4),
    "BatchNorm3d": (lambda: nn.BatchNorm3d(4), lambda: channels(4, 3), 4, 4),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), lambda: channels(4, 2), 4, 4),
    "InstanceNorm1d": (lambda: nn.InstanceNorm1d(4), lambda: channels(4, 1), 4, 4),
    "InstanceNorm2d": (lambda: nn.InstanceNorm2d(4), lambda: channels(4, 2), 4, 4),
    "InstanceNorm3d": (lambda: nn.InstanceNorm3d(4), lambda: channels(4, 3), 4, 4),
}


@pytest.mark.filterwarnings("ignore:LSTM with projections")  # oneDNN lacks them on some machines
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_tells_the_sizes_that_it_really_has(name: str) -> None:
    make, make_input, before, behind = LAYERS[name]
    layer = make()
    start = Stream.unknown()
    end = after(layer, start)
    assert start.size.value == before or before is None
    assert end.size.value == behind
    x = make_input()
    out = layer(x)
    out = out[0] if isinstance(out, tuple) else out
    form = end.form.value
    if behind is not None and form is not None:
        assert out.shape[form.dim] == behind
        if before is not None:
            assert x.shape[form.dim] == before


STRIDED: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "Conv1d": (lambda: nn.Conv1d(4, 4, 3, stride=2, padding=1), 1),
    "Conv2d": (lambda: nn.Conv2d(4, 4, 3, stride=(2, 1), padding=1), 2),
    "Conv3d": (lambda: nn.Conv3d(4, 4, 1, stride=[2, 1, 2]), 3),  # type: ignore[arg-type]  # a list, as torch allows
    "MaxPool1d": (lambda: nn.MaxPool1d(2), 1),
    "MaxPool2d": (lambda: nn.MaxPool2d((2, 2)), 2),
    "MaxPool2d with a list": (lambda: nn.MaxPool2d([2, 1]), 2),  # type: ignore[arg-type]  # likewise
    "MaxPool3d": (lambda: nn.MaxPool3d(2, ceil_mode=True), 3),
    "AvgPool1d": (lambda: nn.AvgPool1d(3, 2, 1), 1),
    "AvgPool2d": (lambda: nn.AvgPool2d(2), 2),
    "AvgPool3d": (lambda: nn.AvgPool3d(2), 3),
    "LPPool1d": (lambda: nn.LPPool1d(2, 2), 1),
    "LPPool2d": (lambda: nn.LPPool2d(2, 2), 2),
    "LPPool3d": (lambda: nn.LPPool3d(2, 2), 3),
    "LPPool2d with a stride": (lambda: nn.LPPool2d(2, 3, stride=2, ceil_mode=True), 2),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(4, 4, 2, stride=2), 2),
    "PixelUnshuffle": (lambda: nn.PixelUnshuffle(2), 2),
    "PixelShuffle": (lambda: nn.PixelShuffle(2), 2),
}


@pytest.mark.parametrize("name", STRIDED)
def test_a_layer_tells_the_stride_that_it_really_has(name: str) -> None:
    make, rank = STRIDED[name]
    layer = make()
    start = Stream.unknown().expecting(4, Form(rank))
    stride = after(layer, start).stride_since(start)
    x = channels(4, rank)
    out = layer(x)
    assert stride is not None
    for step, have, got in zip(stride, x.shape[2:], out.shape[2:], strict=True):
        assert abs(Fraction(have) / step - got) < 1


def test_strides_multiply_and_cancel() -> None:
    start = Stream.unknown().expecting(4, Form(2))
    down = after(nn.Conv2d(4, 4, 3, 2, 1), after(nn.MaxPool2d(2), start))
    assert down.stride_since(start) == (Fraction(4), Fraction(4))
    up = after(nn.Upsample(scale_factor=4), down)
    assert up.stride_since(start) == ()
    assert after(nn.Upsample(size=(3, 3)), down).stride_since(start) is None
    assert after(nn.AdaptiveAvgPool2d(1), down).stride_since(start) is None


@pytest.mark.parametrize("layer", [nn.LayerNorm(4), nn.ReLU(), nn.Dropout(), nn.Identity(), nn.Softmax(-1)])
def test_layers_that_work_on_each_element_keep_what_is_known(layer: nn.Module) -> None:
    for start in (Stream.unknown(), after(nn.Conv2d(3, 4, 1), Stream.unknown())):
        assert after(layer, start) is start


def test_what_follows_tells_the_layout_of_what_came_before() -> None:
    start = Stream.unknown()
    after(nn.Conv2d(4, 6, 1), after(nn.ReLU(), start))
    assert start.form.value == Form(2)
    assert start.size.value == 4


def test_flatten_after_a_convolution_makes_features_last() -> None:
    conv = after(nn.Conv2d(3, 4, 1), Stream.unknown())
    flat = after(nn.Flatten(), conv)
    assert flat.form.value is LAST
    assert flat.size.value is None
    assert after(nn.Flatten(0), conv).form.value is None


def test_glu_halves_the_features_only_along_the_features() -> None:
    linear = after(nn.Linear(4, 6), Stream.unknown())
    conv = after(nn.Conv1d(4, 6, 1), Stream.unknown())
    assert after(nn.GLU(), linear).size.value == 3
    assert after(nn.GLU(1), conv).size.value == 3
    assert after(nn.GLU(), conv).size.value is None


def test_an_unknown_layer_tells_nothing() -> None:
    end = after(Unknown(nn.Linear(4, 6)), after(nn.Linear(3, 4), Stream.unknown()))
    assert end.size.value is None
    assert end.form.value is None


def test_a_subclass_of_a_known_layer_tells_what_its_parent_tells() -> None:
    class Special(nn.Linear):
        pass

    assert after(Special(4, 6), Stream.unknown()).size.value == 6


def test_a_contradiction_starts_anew_from_the_layer() -> None:
    start = after(nn.Linear(3, 4), Stream.unknown())
    end = after(nn.Linear(5, 6), start)
    assert start.size.value == 4
    assert end.size.value == 6
    assert end.stride_since(start) is None


def test_unknowns_that_are_the_same_are_the_same() -> None:
    a: Variable[int] = Variable()
    b: Variable[int] = Variable()
    assert a.same_as(a)
    assert not a.same_as(b)
    assert a.learn(3)
    assert b.learn(3)
    assert a.same_as(b)
    assert not a.learn(4)


def test_every_rule_is_for_a_layer_of_torch_or_ours() -> None:
    assert all(issubclass(kind, nn.Module) for kind in RULES)
    assert len(RULES) > 80
