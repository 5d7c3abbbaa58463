"""Without data: on the meta device and under FakeTensorMode a block gives shapes and dtypes, and says what is wrong."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from tests.torchresidual.compiled_blocks import CASES, RECURRENT, Case
from tests.torchresidual.toys import Doubled
from torchresidual import Apply, Record, ResidualSequential, ShapeError, UnsettledError

ALL = {**CASES, "recurrent": RECURRENT}


@pytest.mark.parametrize("case", ALL.values(), ids=ALL)
def test_a_block_under_fake_tensor_mode_has_the_shapes_of_a_real_one(case: Case) -> None:
    block, x = case.build()
    with FakeTensorMode():
        fake_block, fake_x = case.build()
        fake = fake_block(fake_x)
    assert isinstance(fake, FakeTensor)
    assert all(isinstance(parameter, FakeTensor) for parameter in fake_block.parameters())
    out = block(x)
    assert (fake.shape, fake.dtype, fake.device) == (out.shape, out.dtype, out.device)


@pytest.mark.parametrize("case", ALL.values(), ids=ALL)
def test_a_real_block_takes_a_fake_input(case: Case) -> None:
    block, x = case.build()
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = block(mode.from_tensor(x))
    assert isinstance(fake, FakeTensor)
    assert fake.shape == block(x).shape


@pytest.mark.parametrize("case", ALL.values(), ids=ALL)
def test_a_block_built_on_meta_has_the_shapes_of_a_real_one(case: Case) -> None:
    block, x = case.build()
    with torch.device("meta"):
        empty = case.make()
    out = empty(x.to("meta"))
    assert all(tensor.is_meta for tensor in (out, *empty.parameters(), *empty.buffers()))
    assert out.shape == block(x).shape
    out.sum().backward()
    assert [parameter.grad is not None for parameter in empty.parameters()] == [True] * len(
        list(block.parameters())
    )


def test_a_shape_that_does_not_fit_is_said_without_data_too() -> None:
    with FakeTensorMode():
        block = ResidualSequential(Record(), nn.Linear(8, 4), Apply())
        with pytest.raises(ShapeError, match=r"at '2'.*recorded \(3, 8\), current \(3, 4\)"):
            block(torch.empty(3, 8))


@pytest.mark.parametrize("operation", ["add", "highway"])
def test_sizes_are_not_settled_with_tensors_that_have_no_values(operation: str) -> None:
    block = ResidualSequential(Record(need_projection=True), Doubled(), Apply(operation))
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = mode.from_tensor(torch.ones(3, 4))
        with pytest.raises(UnsettledError, match=r"under FakeTensorMode.*call block\.materialize\(example\)"):
            block(fake)
    assert block(torch.ones(3, 4)).shape == (3, 8)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        assert block(mode.from_tensor(torch.ones(3, 4))).shape == (3, 8)
