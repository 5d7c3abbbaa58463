from __future__ import annotations

import copy
import inspect
import math
from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import nn
from torch.func import functional_call

from tests.torchresidual.properties import DETERMINISTIC
from torchresidual import ConfigurationError, LearnableAlpha

finite = st.floats(-1e6, 1e6, allow_nan=False)


@st.composite
def bounds(draw: st.DrawFn) -> tuple[float, float]:
    low = draw(finite)
    width = draw(st.floats(1e-3, 1e6))
    assume(width > 1e-5 * abs(low))
    return low, low + width


def test_raw_value_of_a_known_start() -> None:
    alpha = LearnableAlpha(0.1, -1, 1)
    assert alpha.param.shape == (1,)
    assert alpha.param.item() == pytest.approx(0.1003353447, abs=1e-7)
    assert alpha().shape == ()


def test_the_signature_is_the_published_one() -> None:
    parameters = inspect.signature(LearnableAlpha).parameters
    defaults = {name: parameter.default for name, parameter in parameters.items()}
    assert defaults == {"initial_value": 1.0, "min_value": 0.0, "max_value": 1.0, "use_log_space": None}


@DETERMINISTIC
@given(
    bounds(), st.floats(allow_nan=False, width=32), st.booleans(), st.sampled_from(["16", "b16", "32", "64"])
)
def test_the_value_stays_in_its_bounds_for_any_raw_value(
    limits: tuple[float, float], raw: float, log: bool, kind: str
) -> None:
    low, high = limits
    if log:
        low, high = 1e-6 + abs(low), 1e-6 + abs(low) + (high - low)
    dtype = {"16": torch.float16, "b16": torch.bfloat16, "32": torch.float32, "64": torch.float64}[kind]
    alpha = LearnableAlpha(low, low, high, use_log_space=log).to(dtype)
    with torch.no_grad():
        alpha.param.fill_(raw) if kind != "16" else alpha.param.copy_(torch.tensor([raw]).half())
    value = alpha()
    assert low <= value.item() <= high
    assert value.dtype == (torch.float64 if kind == "64" else torch.float32)
    (gradient,) = torch.autograd.grad(value, alpha.param)
    assert not gradient.isnan().any()


@DETERMINISTIC
@given(st.floats(-4, 4), st.floats(0.5, 8), st.floats(0.001, 0.999))
def test_a_start_comes_back_to_a_millionth_of_the_range(low: float, width: float, place: float) -> None:
    high = low + width
    start = low + place * width
    assert abs(float(LearnableAlpha(start, low, high, use_log_space=False)) - start) <= 1e-6 * (high - low)


@DETERMINISTIC
@given(st.floats(-8, 0), st.floats(2.5, 8), st.floats(0.001, 0.999))
def test_a_start_in_log_space_comes_back_to_a_millionth_of_the_range(
    low_power: float, decades: float, place: float
) -> None:
    low, high = 10**low_power, 10 ** (low_power + decades)
    start = math.exp(math.log(low) + place * (math.log(high) - math.log(low)))
    alpha = LearnableAlpha(start, low, high)
    assert alpha.use_log_space
    assert abs(float(alpha) - start) <= 1e-6 * (high - low)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-1.0, 1.0), (-3.0, 5.0)])
def test_a_start_at_a_bound_begins_one_in_two_thousand_inside(low: float, high: float) -> None:
    for bound, sign in ((low, 1), (high, -1)):
        alpha = LearnableAlpha(bound, low, high)
        assert float(alpha) == pytest.approx(bound + sign * 0.0005 * (high - low), abs=1e-6 * (high - low))
        assert torch.autograd.grad(alpha(), alpha.param)[0].item() > 0


def test_saturation_says_how_far_the_raw_value_has_gone() -> None:
    alpha = LearnableAlpha(0.5)
    assert alpha.saturation == 0.0
    with torch.no_grad():
        alpha.param.fill_(5.0)
    assert alpha.saturation > 0.99


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((math.nan, 0, 1), r"initial_value must lie in \[0, 1\], found nan"),
        ((1.5, 0, 1), r"initial_value must lie in \[0, 1\], found 1.5"),
        ((-0.1, 0, 1), r"initial_value must lie in \[0, 1\], found -0.1"),
        ((1.0, 0, 0.5), r"initial_value must lie in \[0, 0.5\], found 1"),
        ((0.5, 1, 0), "min_value must be less than max_value, found min_value=1, max_value=0"),
        ((0.5, 0.5, 0.5), "min_value must be less than max_value"),
        ((0.5, 0, math.inf), "bounds must be finite fp32 numbers"),
        ((0.5, math.nan, 1), "bounds must be finite fp32 numbers"),
        (
            (0.5, 0, 1, True),
            "log space needs a lower bound above 0, found min_value=0; raise it or pass use_log_space",
        ),
        ((0.5, -1, 1, True), "log space needs a lower bound above 0"),
    ],
)
def test_what_is_not_allowed_is_said(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        LearnableAlpha(*arguments)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(("low", "high", "near"), [(0, 0.5, 0.5), (2, 3, 2), (-2, -1, -1), (0, 2, 1)])
def test_the_default_start_is_clipped_to_the_bounds(low: float, high: float, near: float) -> None:
    assert float(LearnableAlpha(min_value=low, max_value=high)) == pytest.approx(near, abs=1e-3)


def test_log_space_is_chosen_above_a_ratio_of_a_hundred() -> None:
    assert LearnableAlpha(0.01, 1e-4, 1.0).use_log_space
    assert not LearnableAlpha(0.5, 0.01, 1.0).use_log_space
    assert not LearnableAlpha(0.5, 0.0, 1.0).use_log_space
    assert not LearnableAlpha(0.01, 1e-4, 1.0, use_log_space=False).use_log_space


def test_equal_raw_steps_are_equal_ratios_in_log_space() -> None:
    alpha = LearnableAlpha(1e-2, 1e-4, 1.0)
    values = []
    for tanh in (-0.5, 0.0, 0.5):
        with torch.no_grad():
            alpha.param.fill_(math.atanh(tanh))
        values.append(float(alpha))
    assert values[1] / values[0] == pytest.approx(values[2] / values[1], rel=1e-5)


def test_a_saved_state_brings_its_mapping_along() -> None:
    saved = LearnableAlpha(0.03, 1e-3, 1.0)
    loaded = LearnableAlpha(0.5)
    loaded.load_state_dict(saved.state_dict())
    assert float(loaded) == float(saved)
    assert loaded.use_log_space
    loaded.load_state_dict(LearnableAlpha(0.25, -1, 1).state_dict())
    assert not loaded.use_log_space
    assert float(loaded) == pytest.approx(0.25)


def test_a_state_whose_mapping_is_impossible_is_refused_before_anything_is_copied() -> None:
    state = LearnableAlpha(0.25, 0.0, 1.0).state_dict()
    state["use_log"] = torch.tensor(True)
    alpha = LearnableAlpha(0.75, 0.5, 1.0)
    before = copy.deepcopy(alpha.state_dict())
    with pytest.raises(RuntimeError, match="expected min_val < max_val, and min_val > 0 in log space"):
        alpha.load_state_dict(state)
    assert all(torch.equal(value, before[key]) for key, value in alpha.state_dict().items())


def test_a_saved_scalar_parameter_loads() -> None:
    state = LearnableAlpha(0.25).state_dict()
    state["param"] = state["param"].reshape(())
    alpha = LearnableAlpha(0.75)
    alpha.load_state_dict(state)
    assert alpha.param.shape == (1,)
    assert float(alpha) == pytest.approx(0.25)


def test_it_is_built_on_meta_and_restored_afterwards() -> None:
    with torch.device("meta"):
        alpha = LearnableAlpha(0.3, 0.1, 0.9)
    assert alpha().is_meta
    assert "meta" in repr(alpha)
    alpha.to_empty(device="cpu")
    alpha.reset_parameters()
    assert float(alpha) == pytest.approx(0.3, abs=1e-6)
    assert alpha.min_val.item() == pytest.approx(0.1)
    assert not alpha.use_log.item()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_the_bounds_stay_exact_in_every_dtype(dtype: torch.dtype) -> None:
    alpha = LearnableAlpha(0.3, 0.1, 0.9).to(dtype)
    assert alpha.param.dtype == dtype
    assert alpha.min_val.dtype == torch.float32
    assert torch.equal(alpha.min_val, torch.tensor(0.1))
    assert float(alpha.float()) == pytest.approx(0.3, abs=3e-3)


def test_arithmetic_works_with_numbers_tensors_and_each_other() -> None:
    alpha, x = LearnableAlpha(0.5), torch.tensor([1.0, 2.0])
    results = [
        (alpha * x, 0.5 * x),
        (x * alpha, 0.5 * x),
        (alpha + 1, torch.tensor(1.5)),
        (1 + alpha, torch.tensor(1.5)),
        (alpha - x, 0.5 - x),
        (1 - alpha, torch.tensor(0.5)),
        (alpha / 2, torch.tensor(0.25)),
        (x / alpha, 2 * x),
        (alpha**2, torch.tensor(0.25)),
        (2**alpha, torch.tensor(math.sqrt(2))),
        (-alpha, torch.tensor(-0.5)),
        (alpha * alpha(), torch.tensor(0.25)),
    ]
    for got, expected in results:
        torch.testing.assert_close(got, expected)


def test_it_learns_towards_a_target() -> None:
    alpha = LearnableAlpha(0.2)
    optimizer = torch.optim.Adam(alpha.parameters(), lr=0.1)
    for _ in range(200):
        optimizer.zero_grad()
        torch.autograd.backward((alpha() - 0.7).square())
        optimizer.step()
    assert float(alpha) == pytest.approx(0.7, abs=1e-2)


def test_functional_call_takes_another_raw_value() -> None:
    alpha = LearnableAlpha(0.2)
    assert functional_call(alpha, {"param": torch.zeros(1)}, ()).item() == pytest.approx(0.5)


def test_a_copy_learns_on_its_own() -> None:
    alpha = LearnableAlpha(0.2)
    twin = copy.deepcopy(alpha)
    with torch.no_grad():
        twin.param.fill_(0.0)
    assert float(alpha) == pytest.approx(0.2)
    assert float(twin) == pytest.approx(0.5)
    assert isinstance(twin.param, nn.Parameter)
