from __future__ import annotations

import threading

import pytest
import torch
from torch import nn
from torch.nn.parameter import UninitializedParameter

from tests.torchresidual.toys import in_threads
from torchresidual import ShapeError
from torchresidual.projection import (
    Bridge,
    ConvGate1d,
    ConvGate2d,
    ConvGate3d,
    LinearGate,
    Placement,
    Unsettled,
    build,
    placement_of,
    settle,
)

ANYWHERE = Placement()
BRIDGES: dict[Bridge, tuple[type[nn.Module], type[nn.Module]]] = {
    Bridge(4, 6): (nn.Linear, LinearGate),
    Bridge(4, 6, 1, (2,)): (nn.Conv1d, ConvGate1d),
    Bridge(4, 6, 2): (nn.Conv2d, ConvGate2d),
    Bridge(4, 6, 3, (1, 2, 2)): (nn.Conv3d, ConvGate3d),
}


@pytest.mark.parametrize("bridge", BRIDGES, ids=str)
@pytest.mark.parametrize("gate_start", [None, -1.0])
def test_a_settled_layer_is_the_one_that_would_have_been_built(
    bridge: Bridge, gate_start: float | None
) -> None:
    torch.manual_seed(3)
    expected = build(bridge, gate_start=gate_start, placement=ANYWHERE)
    layer = Unsettled(gate_start, placement=ANYWHERE)
    weight, bias = layer.weight, layer.bias
    torch.manual_seed(3)
    settle(layer, bridge)
    plain, gate = BRIDGES[bridge]
    assert type(layer) is (plain if gate_start is None else gate)
    assert type(layer) is type(expected)
    assert repr(layer) == repr(expected)
    assert layer.weight is weight
    assert layer.bias is bias
    for key, value in expected.state_dict().items():
        assert torch.equal(layer.state_dict()[key], value)
    if gate_start is not None:
        assert torch.equal(layer.bias, torch.full((6,), gate_start))
    x = torch.randn(2, 5, 4) if bridge.spatial is None else torch.randn(2, 4, *[7] * bridge.spatial)
    torch.testing.assert_close(layer(x), expected(x))


def test_a_layer_is_settled_once_by_whichever_thread_comes_first() -> None:
    start = threading.Barrier(8)
    layer = Unsettled(placement=ANYWHERE)

    def settles() -> torch.Tensor:
        start.wait(timeout=60)
        settle(layer, Bridge(4, 6))
        return layer.weight.detach().clone()

    seen = in_threads([settles] * 8)
    assert all(torch.equal(weight, seen[0]) for weight in seen)


def test_an_unsettled_layer_refuses_to_run_and_names_the_way_out() -> None:
    with pytest.raises(ShapeError, match="materialize"):
        Unsettled(placement=ANYWHERE)(torch.zeros(2))


@pytest.mark.parametrize(
    "moved", [lambda one: one.half(), lambda one: one.to("meta"), lambda one: one.to("meta").cpu]
)
def test_an_unsettled_layer_stays_one_when_it_is_moved(moved: object) -> None:
    layer = Unsettled(placement=Placement(torch.float64))
    assert callable(moved)
    moved(layer)
    assert all(isinstance(parameter, UninitializedParameter) for parameter in layer.parameters())
    assert all(parameter.requires_grad for parameter in layer.parameters())


def test_a_bridge_is_needed_for_another_size_or_a_stride() -> None:
    assert not Bridge(4, 4).needed
    assert not Bridge(4, 4, 2, (1, 1)).needed
    assert Bridge(4, 6).needed
    assert Bridge(4, 4, 2, (2, 1)).needed


def test_a_bridge_knows_the_layers_that_it_would_make() -> None:
    for bridge in BRIDGES:
        assert bridge.fits(build(bridge, placement=ANYWHERE))
        assert not any(bridge.fits(build(other, placement=ANYWHERE)) for other in BRIDGES if other != bridge)
    assert not Bridge(4, 6, 2, (2, 2)).fits(nn.Conv2d(4, 6, 1))


def test_the_place_of_a_layer_is_that_of_its_first_parameter() -> None:
    assert placement_of(nn.Linear(2, 2, dtype=torch.float64)) == Placement(torch.float64, torch.device("cpu"))
    assert placement_of(nn.ReLU()) is None
