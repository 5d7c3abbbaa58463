from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

from rescli.bench.denormal import denormals


@pytest.mark.parametrize(
    ("dtype", "value", "count"),
    [
        (torch.float32, 1e-41, 6),
        (torch.float32, 1e-37, 0),
        (torch.float32, 0.0, 0),
        (torch.float64, 1e-41, 0),
        (torch.float64, 1e-310, 6),
        (torch.bfloat16, 1e-40, 6),
        # Small for float16, and normal in the float32 that it is computed in.
        (torch.float16, 1e-7, 0),
    ],
)
def test_values_are_denormal_by_their_type(dtype: torch.dtype, value: float, count: int) -> None:
    layer = nn.Linear(3, 2, bias=False, dtype=dtype)
    nn.init.constant_(layer.weight, value)
    assert denormals(layer, ()) == ({"weight": count} if count else {})


def test_parameters_buffers_and_inputs_are_looked_at() -> None:
    block = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    nn.init.constant_(block.get_parameter("0.weight"), -1e-41)
    block.get_buffer("1.running_var")[0] = 1e-42
    found = denormals(block, (torch.tensor([1.0, 1e-40]), torch.tensor([1, 2])))
    assert found == {"0.weight": 4, "1.running_var": 1, "input 0": 1}


def test_what_is_not_there_yet_is_left_alone() -> None:
    with warnings.catch_warnings():
        # Older versions of torch warn that lazy layers are under development.
        warnings.simplefilter("ignore", UserWarning)
        lazy = nn.LazyLinear(3)
    assert denormals(lazy, ()) == {}


def test_a_process_that_flushes_denormals_has_none() -> None:
    layer = nn.Linear(3, 2, bias=False)
    nn.init.constant_(layer.weight, 1e-41)
    if not torch.set_flush_denormal(True):
        pytest.skip("this CPU cannot flush denormals")
    try:
        assert denormals(layer, ()) == {}
    finally:
        torch.set_flush_denormal(False)
    assert denormals(layer, ()) == {"weight": 6}
