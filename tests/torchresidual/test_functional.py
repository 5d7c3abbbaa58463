"""torch.func: parameters from outside, gradients as functions, and vmap."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap

from tests.torchresidual.compiled_blocks import CASES, Case
from tests.torchresidual.toys import Doubled
from torchresidual import Apply, Record, ResidualSequential, UnsettledError


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_block_runs_with_parameters_from_outside(case: Case) -> None:
    block, x = case.build()
    other, _ = case.build()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(0.1)
    before = block(x)
    torch.testing.assert_close(functional_call(block, dict(other.named_parameters()), (x,)), other(x))
    torch.testing.assert_close(block(x), before)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_gradients_as_a_function_are_those_of_autograd(case: Case) -> None:
    block, x = case.build()
    parameters: dict[str, Tensor] = dict(block.named_parameters())

    def loss(values: dict[str, Tensor]) -> Tensor:
        out: Tensor = functional_call(block, values, (x,))
        return out.square().sum()

    expected = torch.autograd.grad(block(x).square().sum(), list(parameters.values()))
    torch.testing.assert_close(list(grad(loss)(parameters).values()), list(expected))


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # torch has no batching rule for attention
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_vmap_runs_a_block_over_a_further_dimension(case: Case) -> None:
    block, _ = case.build()
    batches = torch.stack([case.input(3), case.input(3) + 1])
    torch.testing.assert_close(vmap(block)(batches), torch.stack([block(x) for x in batches]))


@pytest.mark.parametrize("operation", ["add", "highway"])
def test_sizes_are_not_settled_inside_a_transform(operation: str) -> None:
    block = ResidualSequential(Record(need_projection=True), Doubled(), Apply(operation))
    x = torch.ones(2, 3, 4)
    with pytest.raises(UnsettledError, match=r"transform of torch\.func.*call block\.materialize\(example\)"):
        vmap(block)(x)
    with pytest.raises(UnsettledError, match=r"transform of torch\.func.*call block\.materialize\(example\)"):
        grad(lambda x: block(x).sum())(x)
    block.materialize(x[0])
    torch.testing.assert_close(vmap(block)(x), block(x))
