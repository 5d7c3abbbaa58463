from __future__ import annotations

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import nn

from tests.torchresidual.properties import DETERMINISTIC
from tests.torchresidual.toys import Unknown, projection_of
from torchresidual import Apply, Record, ResidualSequential, ShapeError
from torchresidual.bridging import bridge_between, guessed_dim


@DETERMINISTIC
@given(
    size=st.integers(3, 40),
    kernel=st.sampled_from((1, 2, 3)),
    stride=st.integers(1, 4),
    ceil=st.booleans(),
    pooled=st.booleans(),
    known=st.booleans(),
)
def test_a_strided_branch_of_any_size_gets_its_skip(
    size: int, kernel: int, stride: int, ceil: bool, pooled: bool, known: bool
) -> None:
    padding = (kernel - 1) // 2
    layer: nn.Module = (
        nn.MaxPool1d(kernel, stride, padding, ceil_mode=ceil)
        if pooled
        else nn.Conv1d(2, 2, kernel, stride, padding)
    )
    branch = nn.Sequential(layer, nn.Conv1d(2, 3, 1))
    x = torch.randn(1, 2, size)
    expected = branch(x).shape
    skip_length = (size - 1) // stride + 1
    # A 1x1 convolution may be longer by one: its surplus is cropped. It cannot be shorter.
    assume(expected[2] <= skip_length <= expected[2] + 1)
    assume(known or stride == 1 or expected[2] == skip_length)
    layers = list(branch) if known else [Unknown(branch)]
    block = ResidualSequential(Record(need_projection=True), *layers, Apply())
    assert block(x).shape == expected
    projection = projection_of(block)
    assert isinstance(projection, nn.Conv1d)
    if known:
        assert projection.stride == (stride,)


def test_an_exact_stride_is_preferred_to_one_that_needs_cropping() -> None:
    assert bridge_between(torch.Size((1, 2, 5)), torch.Size((1, 2, 17)), 1, subject="").stride == (4,)
    assert bridge_between(torch.Size((1, 2, 4)), torch.Size((1, 2, 15)), 1, subject="").stride == (4,)
    assert bridge_between(torch.Size((1, 2, 8)), torch.Size((1, 2, 15)), 1, subject="").stride == (2,)
    assert bridge_between(torch.Size((1, 2, 7)), torch.Size((1, 2, 15)), 1, subject="").stride == (2,)


def test_each_dimension_has_its_own_stride() -> None:
    bridge = bridge_between(torch.Size((1, 6, 8, 16)), torch.Size((1, 4, 15, 16)), 1, subject="")
    assert (bridge.size_in, bridge.size_out, bridge.spatial, bridge.stride) == (4, 6, 2, (2, 1))


@pytest.mark.parametrize(
    ("x", "r", "dim"),
    [
        ((2, 6, 5), (2, 4, 5), 1),
        ((2, 5, 6), (2, 5, 4), -1),
        ((2, 6), (2, 4), -1),
        ((2, 6, 5, 5), (2, 4, 5, 5), 1),
        ((2, 5, 5), (2, 5, 5), -1),
    ],
)
def test_where_no_layer_tells_channels_are_first_only_if_they_differ(
    x: tuple[int, ...], r: tuple[int, ...], dim: int
) -> None:
    assert guessed_dim(torch.Size(x), torch.Size(r)) == dim


def test_sizes_that_hold_no_features_must_agree() -> None:
    with pytest.raises(
        ShapeError, match=r"sizes differ in dimension 0, .* recorded \(3, 4\), current \(2, 6\)"
    ):
        bridge_between(torch.Size((2, 6)), torch.Size((3, 4)), -1, subject="it")
