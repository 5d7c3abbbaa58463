from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from rescli.graph import copies
from rescli.spec import without_data
from rescli.spec.without_data import build_large_without_data
from torchresidual import Apply, LearnableAlpha, Record, ResidualSequential


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Call everything large that has more than 100 elements."""
    monkeypatch.setattr(without_data, "MOST_REAL_ELEMENTS", 100)
    monkeypatch.setattr(without_data, "_SMALL_TENSOR", 20)


def test_what_is_shown_without_data_is_built_without() -> None:
    assert without_data.MOST_REAL_ELEMENTS == copies._MOST_REAL_PARAMETERS


def test_a_small_block_is_built_for_real_and_once() -> None:
    calls = []

    def make() -> nn.Module:
        calls.append(1)
        return nn.Linear(4, 4)

    torch.manual_seed(3)
    expected = nn.Linear(4, 4).weight
    torch.manual_seed(3)
    built: Any = build_large_without_data(make)
    assert built.weight.equal(expected)
    assert len(calls) == 1


def test_a_hundred_billion_parameters_take_no_memory() -> None:
    def make() -> nn.Module:
        layers = [nn.Linear(100_000, 100_000, bias=False) for _ in range(10)]
        return ResidualSequential(Record(), *layers, Apply(alpha=LearnableAlpha(0.3)))

    built: Any = build_large_without_data(make)
    assert sum(each.numel() for each in built.parameters()) == 100_000_000_001
    assert all(each.is_meta for name, each in built.named_parameters() if "weight" in name)
    assert float(built[-1].alpha) == pytest.approx(0.3)


def test_a_single_parameter_that_fits_no_machine_is_none_that_fails() -> None:
    built: Any = build_large_without_data(lambda: nn.Embedding(10**9, 10**6))
    assert built.weight.shape == (10**9, 10**6)


@pytest.mark.usefixtures("small_limit")
def test_small_tensors_of_a_large_block_have_values_that_can_be_read() -> None:
    rates: list[float] = []

    def make() -> nn.Module:
        rates[:] = [each.item() for each in torch.linspace(0, 0.5, 6, dtype=torch.float64)]
        return nn.Sequential(nn.Linear(16, 16), *(nn.Dropout(rate) for rate in rates))

    built: Any = build_large_without_data(make)
    assert built[0].weight.is_meta
    assert [layer.p for layer in built[1:]] == pytest.approx([0, 0.1, 0.2, 0.3, 0.4, 0.5])


@pytest.mark.usefixtures("small_limit")
def test_a_factory_that_mixes_devices_gets_one_for_all() -> None:
    def make() -> nn.Module:
        layer = nn.Linear(16, 16)
        layer.register_buffer("table", torch.zeros(16, 16) + torch.ones(16))
        return layer

    built: Any = build_large_without_data(make)
    assert built.weight.is_meta
    assert built.table.is_meta


@pytest.mark.usefixtures("small_limit")
def test_a_factory_that_needs_its_data_makes_its_block_for_real() -> None:
    def make() -> nn.Module:
        layer = nn.Linear(16, 16)
        vars(layer)["scale"] = float(layer.weight.abs().max())
        return layer

    built: Any = build_large_without_data(make)
    assert built.scale == float(built.weight.abs().max())


@pytest.mark.usefixtures("small_limit")
@pytest.mark.parametrize("width", [4, 40])
def test_what_a_factory_raises_is_its_own_whatever_its_size(width: int) -> None:
    def make() -> nn.Module:
        nn.Linear(width, width)
        raise ValueError("no such variant")

    with pytest.raises(ValueError, match="no such variant") as raised:
        build_large_without_data(make)
    assert raised.value.__context__ is None


@pytest.mark.usefixtures("small_limit")
def test_a_factory_that_catches_everything_is_built_without_data_too() -> None:
    def make() -> nn.Module:
        try:
            return nn.Linear(16, 16)
        except BaseException as error:
            raise RuntimeError("something") from error

    built: Any = build_large_without_data(make)
    assert built.weight.is_meta


def test_no_hook_of_ours_stays() -> None:
    registered = copy.copy(nn.modules.module._global_parameter_registration_hooks)
    build_large_without_data(lambda: nn.Linear(5_000, 5_000))
    assert nn.modules.module._global_parameter_registration_hooks == registered
