from __future__ import annotations

import copy
import io
import pickle
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn

from tests.torchresidual.toys import Calls, Doubled, KeepsOnSelf, in_threads
from torchresidual import Apply, LearnableAlpha, Record, RecurrentWrapper, ResidualSequential

if TYPE_CHECKING:
    from collections.abc import Callable


def make_block() -> ResidualSequential:
    """A block with all that can be in one."""
    return ResidualSequential(
        Record(need_projection=True, name="in"),
        nn.Linear(4, 6),
        ResidualSequential(Record(), nn.Linear(6, 6), nn.ReLU(inplace=True), Apply("highway")),
        nn.Sequential(Record(), nn.Dropout(0.1), Apply("multiply", alpha=LearnableAlpha(0.01, 1e-4, 1.0))),
        Apply(record_name="in", scale=nn.Parameter(torch.ones(6))),
        RecurrentWrapper(nn.GRU(6, 6, batch_first=True)),
        Apply("gated", "in", alpha=torch.tensor(0.5), projection=nn.Linear(4, 6)),
    )


def pickled(module: nn.Module) -> bytes:
    return pickle.dumps(module)


def saved(module: nn.Module) -> bytes:
    buffer = io.BytesIO()
    torch.save(module, buffer)
    return buffer.getvalue()


def loaded(data: bytes) -> nn.Module:
    result: nn.Module = torch.load(io.BytesIO(data), weights_only=False)
    return result


def deep_copied(module: nn.Module) -> nn.Module:
    return copy.deepcopy(module)


def an_input() -> Tensor:
    return torch.randn(2, 5, 4, requires_grad=True)


@pytest.mark.parametrize("to_bytes", [pickled, saved])
def test_the_bytes_are_the_same_before_and_after_a_forward(to_bytes: Callable[[nn.Module], bytes]) -> None:
    block = make_block()
    before = to_bytes(block)
    assert b"torchresidual.plan" not in before
    out = block(an_input())
    assert to_bytes(block) == before
    out.sum().backward()
    assert to_bytes(block) == before


def test_the_same_method_finds_a_block_that_keeps_an_activation() -> None:
    block = KeepsOnSelf(nn.Linear(4, 4))
    before = pickled(block)
    block(torch.zeros(2, 4))
    assert len(pickled(block)) > len(before)
    leaky = nn.Sequential(nn.Linear(4, 4), KeepsOnSelf(nn.Linear(4, 4)))
    leaky(torch.zeros(2, 4))
    with pytest.raises(RuntimeError, match="deepcopy"):
        copy.deepcopy(leaky)


@pytest.mark.parametrize("run_before", [False, True])
@pytest.mark.parametrize(
    "copied",
    [deep_copied, lambda module: pickle.loads(pickled(module)), lambda module: loaded(saved(module))],  # noqa: S301 - our own bytes
)
def test_a_copy_gives_the_same_output_and_shares_nothing(
    copied: Callable[[nn.Module], nn.Module], run_before: bool
) -> None:
    block = make_block().eval()
    x = an_input()
    if run_before:
        block(x).sum().backward()
    twin = copied(block)
    torch.testing.assert_close(twin(x), block(x))
    assert not {id(module) for module in twin.modules()} & {id(module) for module in block.modules()}
    pointers = {parameter.data_ptr() for parameter in block.parameters()}
    assert not pointers & {parameter.data_ptr() for parameter in twin.parameters()}
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert not torch.equal(twin(x), block(x))
    assert isinstance(twin, ResidualSequential)
    assert twin.edges() == block.edges()


def test_copies_are_made_at_any_moment_also_while_it_runs() -> None:
    copies: list[nn.Module] = []
    block = ResidualSequential(Record(), nn.Linear(3, 3), Calls(lambda _: copies.append(copy_of())), Apply())

    def copy_of() -> nn.Module:
        stripped = ResidualSequential(*(layer for layer in block if not isinstance(layer, Calls)))
        pickle.dumps(stripped)
        return copy.deepcopy(stripped)

    x = torch.randn(2, 3, requires_grad=True)
    expected = block(x)
    torch.testing.assert_close(copies[0](x), expected)


def test_threads_may_copy_what_other_threads_run() -> None:
    block = make_block().eval()
    x = torch.randn(2, 5, 4)
    expected = block(x)

    def run() -> bool:
        return all(torch.equal(block(x), expected) for _ in range(10))

    def copies() -> bool:
        return all(torch.equal(copy.deepcopy(block)(x), expected) for _ in range(5))

    assert all(in_threads([run, copies, run, copies]))


def test_a_module_that_stands_twice_stands_twice_in_a_copy() -> None:
    shared = nn.Linear(3, 3)
    block = ResidualSequential(Record(), shared, shared, Apply())
    twin = copy.deepcopy(block)
    assert twin[1] is twin[2]
    torch.testing.assert_close(twin(torch.ones(1, 3)), block(torch.ones(1, 3)))


class TestUnsettled:
    """Blocks whose sizes nobody knows yet."""

    def make(self) -> ResidualSequential:
        return ResidualSequential(Record(need_projection=True), Doubled(), Apply("highway"))

    @pytest.mark.parametrize("copied", [deep_copied, lambda module: pickle.loads(pickled(module))])  # noqa: S301 - our own bytes
    def test_a_copy_settles_on_its_own(self, copied: Callable[[nn.Module], nn.Module]) -> None:
        block = self.make().to(torch.bfloat16)
        twin = copied(block)
        x = torch.randn(3, 4, dtype=torch.bfloat16)
        assert twin(x).shape == (3, 8)
        assert all(parameter.dtype == torch.bfloat16 for parameter in twin.parameters())
        assert all(nn.parameter.is_lazy(parameter) for parameter in block.parameters())
        assert block(x).shape == (3, 8)

    def test_a_settled_one_is_pickled_as_ordinary_layers(self) -> None:
        block = self.make()
        x = torch.randn(3, 4)
        expected = block(x)
        torch.testing.assert_close(loaded(saved(block))(x), expected)
        torch.testing.assert_close(copy.deepcopy(block)(x), expected)

    def test_a_state_dict_of_an_unsettled_block_loads_into_another(self) -> None:
        state = self.make().state_dict()
        assert sorted(state) == [
            "2.gate_layer.carry_gate.bias",
            "2.gate_layer.carry_gate.weight",
            "2.gate_layer.transform_gate.bias",
            "2.gate_layer.transform_gate.weight",
            "2.projection_layer.bias",
            "2.projection_layer.weight",
        ]
        twin = self.make()
        twin.load_state_dict(state)
        assert twin(torch.randn(3, 4)).shape == (3, 8)

    def test_a_settled_state_loads_into_an_unsettled_block(self) -> None:
        block, twin = self.make(), self.make()
        x = torch.randn(3, 4)
        expected = block(x)
        before = [id(parameter) for parameter in twin.parameters()]
        twin.load_state_dict(block.state_dict())
        torch.testing.assert_close(twin(x), expected)
        assert [id(parameter) for parameter in twin.parameters()] == before
