"""Hypothesis strategies for blocks: any structure, any operation, any kind of alpha and scale."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.torchresidual.toys import InOrder
from torchresidual import Apply, LearnableAlpha, Record, ResidualSequential

if TYPE_CHECKING:
    from collections.abc import Callable

FEATURES = 3
NAMES = (None, None, "a", "b")

Coefficient = float | LearnableAlpha | Tensor


def linear(inputs: int = FEATURES) -> nn.Linear:
    return nn.Linear(inputs, FEATURES, dtype=torch.float64)


IN_PLACE: tuple[Callable[[], nn.Module], ...] = (
    lambda: nn.Hardswish(inplace=True),
    lambda: nn.SiLU(inplace=True),
    lambda: nn.Sequential(nn.Identity(), nn.Sequential(nn.Flatten(1)), nn.Mish(inplace=True)),
)
LAYERS: tuple[Callable[[], nn.Module], ...] = (
    *IN_PLACE,
    linear,
    nn.GELU,
    nn.Identity,
    lambda: nn.LayerNorm(FEATURES, dtype=torch.float64),
    lambda: nn.Dropout(0.0),
)


@st.composite
def coefficients(draw: st.DrawFn) -> Coefficient:  # noqa: PLR0911 - one return a kind
    """Any kind of alpha or scale."""
    kind = draw(st.sampled_from(("one", "float", "learnable", "log", "buffer", "parameter", "vector")))
    number = draw(st.floats(-2, 2).map(lambda value: round(value, 2)))
    if kind == "one":
        return 1.0
    if kind == "float":
        return number
    if kind == "learnable":
        return LearnableAlpha(number, min_value=-3.0, max_value=3.0).double()
    if kind == "log":
        return LearnableAlpha(abs(number) + 0.1, min_value=1e-3, max_value=4.0).double()
    tensor = torch.tensor(number, dtype=torch.float64)
    if kind == "buffer":
        return tensor
    if kind == "parameter":
        return nn.Parameter(tensor.reshape(1))
    return nn.Parameter(tensor + torch.arange(FEATURES, dtype=torch.float64) / 4)


def records() -> st.SearchStrategy[Record]:
    return st.builds(Record, need_projection=st.booleans(), name=st.sampled_from(NAMES))


@st.composite
def applies(draw: st.DrawFn) -> nn.Module:
    """An Apply; concat comes with the Linear that brings the features back."""
    operation = draw(st.sampled_from(("add", "multiply", "gated", "highway", "concat")))
    name = draw(st.sampled_from(NAMES))
    apply = Apply(operation, name, draw(coefficients()), scale=draw(coefficients()))
    if operation == "concat":
        back = linear(2 * FEATURES)
        return nn.Sequential(apply, back) if draw(st.booleans()) else InOrder(apply, back)
    return apply


@st.composite
def children(draw: st.DrawFn, depth: int = 2, *, in_place: bool = True) -> list[nn.Module]:
    """Layers in order, nested containers among them, some of them the same object again.

    Layers of the user's own hold no in-place layers: torchresidual does not know what those write into.
    """
    allowed = [layer for layer in LAYERS if in_place or layer not in IN_PLACE]
    layers: list[nn.Module] = []
    for kind in draw(st.lists(st.sampled_from("rrllaaanpcs"), min_size=1, max_size=7)):
        if kind == "r":
            layers.append(draw(records()))
        elif kind == "a":
            layers.append(draw(applies()))
        elif kind == "s" and layers:
            layers.append(draw(st.sampled_from(layers)))
        elif kind in "npc" and depth:
            container = {"n": ResidualSequential, "p": nn.Sequential, "c": InOrder}[kind]
            layers.append(container(*draw(children(depth - 1, in_place=in_place and kind != "c"))))
        else:
            layers.append(draw(st.sampled_from(allowed))())
    return layers


def blocks() -> st.SearchStrategy[ResidualSequential]:
    return children().map(lambda layers: ResidualSequential(*layers).double())
