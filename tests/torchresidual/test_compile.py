"""torch.compile: one graph, no second compilation, the values and gradients of eager."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounter

from tests.torchresidual.compiled_blocks import CASES, RECURRENT, Case
from torchresidual import Apply, Record, RecurrentWrapper, ResidualSequential

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("g++", "clang++"))), reason="inductor needs a C++ compiler"
)


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def values_and_gradients(module: Callable[[Tensor], Tensor], block: nn.Module, x: Tensor) -> list[Tensor]:
    x = x.clone().requires_grad_()
    out = module(x)
    return [out.detach(), *torch.autograd.grad(out.square().sum(), [x, *block.parameters()])]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_block_is_one_graph_that_is_compiled_once(case: Case) -> None:
    block, x = case.build()
    counter = CompileCounter()
    compiled = torch.compile(block, fullgraph=True, backend=counter)
    torch.testing.assert_close(
        values_and_gradients(compiled, block, x), values_and_gradients(block, block, x)
    )
    values_and_gradients(compiled, block, x)
    assert counter.frame_count == 1


def test_the_count_finds_a_second_compilation() -> None:
    """The twin: what the test above counts does go up when something must be compiled again."""
    block, x = CASES["add"].build()
    counter = CompileCounter()
    compiled = torch.compile(block, fullgraph=True, backend=counter, dynamic=False)
    compiled(x)
    compiled(CASES["add"].input(7))
    assert counter.frame_count == 2


def test_a_block_is_compiled_once_also_in_a_thread_that_never_ran_one() -> None:
    import threading

    block, x = CASES["nested"].build()
    counter = CompileCounter()
    compiled = torch.compile(block, fullgraph=True, backend=counter)
    outputs: list[Tensor] = []

    def work() -> None:
        outputs.extend((compiled(x), compiled(x)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    torch.testing.assert_close(outputs, [block(x)] * 2)
    assert counter.frame_count == 1


@needs_compiler
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method`:DeprecationWarning")  # inductor's own imports
@pytest.mark.parametrize("name", ["projection", "nested"])
def test_inductor_gives_the_values_and_gradients_of_eager(name: str) -> None:
    block, x = CASES[name].build()
    compiled = torch.compile(block, fullgraph=True)
    torch.testing.assert_close(
        values_and_gradients(compiled, block, x), values_and_gradients(block, block, x)
    )


# torch's own, where it goes on behind a graph break.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
def test_a_block_with_a_recurrent_layer_compiles_with_graph_breaks() -> None:
    block, x = RECURRENT.build()
    compiled = torch.compile(block, backend="eager")
    torch.testing.assert_close(compiled(x), block(x))


def test_an_inner_block_compiled_on_its_own_keeps_its_skips() -> None:
    block = ResidualSequential(Record(), ResidualSequential(Record(), nn.Linear(8, 8), Apply()), Apply())
    x = torch.randn(3, 8)
    expected = block(x)
    block.get_submodule("1").compile(backend="eager", fullgraph=True)
    torch.testing.assert_close(block(x), expected)


def test_an_inner_block_compiled_on_its_own_sees_the_records_around_it() -> None:
    case = CASES["nested"]
    block, x = case.build()
    expected = [block(x), block(case.input(3) + 1)]
    block.get_submodule("1").compile(backend="eager")
    torch.testing.assert_close([block(x), block(case.input(3) + 1)], expected)


class InOrder(nn.Module):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers(x)
        return out


# torch's own, where it goes on behind a graph break.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
def test_behind_a_graph_break_a_block_in_a_layer_still_finds_the_record_around_it() -> None:
    inner = ResidualSequential(RecurrentWrapper(nn.LSTM(4, 4)), Apply(record_name="a"))
    block = ResidualSequential(Record(name="a"), InOrder(inner)).eval()
    compiled = torch.compile(block, backend="eager")
    for x in torch.randn(2, 3, 2, 4):
        torch.testing.assert_close(compiled(x), block(x))


class Doubling(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, x], -1)


def test_an_unsettled_block_is_refused_and_names_materialize() -> None:
    block = ResidualSequential(Record(need_projection=True), Doubling(), Apply())
    x = torch.ones(2, 4)
    with pytest.raises(Exception, match=r"call block\.materialize\(example\) before compile or export"):
        torch.compile(block, fullgraph=True, backend="eager")(x)
    with pytest.raises(Exception, match=r"call block\.materialize\(example\) before compile or export"):
        torch.export.export(block, (x,), strict=True)
    block.materialize(x)
    torch.testing.assert_close(torch.compile(block, fullgraph=True, backend="eager")(x), block(x))
