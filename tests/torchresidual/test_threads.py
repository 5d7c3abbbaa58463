from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn

from tests.torchresidual.toys import Doubled, KeepsOnSelf, Meets, in_threads, replicas_of
from torchresidual import Apply, Record, RecurrentWrapper, ResidualSequential
from torchresidual.core import _context

if TYPE_CHECKING:
    from collections.abc import Callable

THREADS, CALLS = 8, 20
BARRIER_TIMEOUT_S = 60


def numbered_input(thread: int, call: int, features: int = 4) -> Tensor:
    """An input of a shape and with values that no other thread and call has."""
    return torch.full((1 + thread, 1 + call % 3, features), float(100 * thread + call))


def wrong_calls(module: nn.Module, expected: Callable[[Tensor], Tensor], *, no_grad: bool = True) -> int:
    """Call one module from many threads at once and count the outputs that are not as expected."""

    def calls_of(thread: int) -> int:
        wrong = 0
        with torch.set_grad_enabled(not no_grad):
            for call in range(CALLS):
                x = numbered_input(thread, call)
                try:
                    wrong += not torch.equal(module(x), expected(x))
                except RuntimeError:
                    wrong += 1
        return wrong

    return sum(in_threads([lambda thread=thread: calls_of(thread) for thread in range(THREADS)]))  # type: ignore[misc]  # a default argument binds the number


def meeting() -> Meets:
    """A layer where all threads stand still together, between Record and Apply."""
    return Meets(threading.Barrier(THREADS))


def block_of(*between: nn.Module) -> ResidualSequential:
    return ResidualSequential(Record(name="r"), *between, Apply(record_name="r"))


def test_many_threads_on_one_block_each_get_their_own() -> None:
    assert wrong_calls(block_of(meeting()), lambda x: x + x) == 0


def test_the_same_method_finds_a_block_that_keeps_the_tensor_on_itself() -> None:
    assert wrong_calls(KeepsOnSelf(meeting()), lambda x: x + x) > 0


@pytest.mark.parametrize("kind", ["hooked", "nested", "container", "reads out", "own layer"])
def test_every_way_to_find_a_record_keeps_threads_apart(kind: str) -> None:
    blocks = {
        "hooked": lambda: block_of(meeting()),
        "nested": lambda: block_of(block_of(meeting())),
        "container": lambda: ResidualSequential(
            nn.Sequential(Record(name="r")), meeting(), nn.Sequential(Apply())
        ),
        "reads out": lambda: ResidualSequential(
            Record(name="r"), ResidualSequential(meeting(), Apply(record_name="r"))
        ),
        "own layer": lambda: ResidualSequential(Record(name="r"), _Holds(nn.Sequential(meeting(), Apply()))),
    }
    block = blocks[kind]()
    if kind == "hooked":
        for module in block.modules():
            module.register_forward_hook(lambda *_: None)
    times = 3 if kind == "nested" else 2
    assert wrong_calls(block, lambda x: times * x) == 0


class _Holds(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.inner(x)
        return result


def outputs_of_replicas(block: nn.Module, inputs: list[Tensor]) -> list[Tensor]:
    replicas = replicas_of(block, len(inputs))
    return in_threads(
        [lambda one=one, x=x: one(x) for one, x in zip(replicas, inputs, strict=True)]  # type: ignore[misc]  # defaults bind
    )


def two_inputs() -> list[Tensor]:
    return [torch.ones(2, 3), torch.full((5, 3), 10.0)]


def test_two_replicas_each_get_their_own() -> None:
    block = block_of(Meets(threading.Barrier(2)))
    for got, x in zip(outputs_of_replicas(block, two_inputs()), two_inputs(), strict=True):
        assert torch.equal(got, 2 * x)


def test_the_same_method_finds_replicas_that_share_a_dictionary() -> None:
    block = KeepsOnSelf(Meets(threading.Barrier(2)))
    try:
        outputs = outputs_of_replicas(block, two_inputs())
    except RuntimeError:  # one got a tensor of the other's shape
        return
    assert any(not torch.equal(got, 2 * x) for got, x in zip(outputs, two_inputs(), strict=True))


def test_nested_replicas_run_their_own_layers() -> None:
    block = ResidualSequential(Record(), block_of(nn.Linear(3, 3)), nn.Sequential(nn.Linear(3, 3), Apply()))
    x = torch.randn(4, 3)
    expected = block(x)
    first, second = replicas_of(block, 2)
    originals = {id(module) for module in block.modules()}
    run: list[int] = []
    for module in first.modules():
        if isinstance(module, nn.Linear):
            module.register_forward_hook(lambda one, *_: run.append(id(one)))
    torch.testing.assert_close(first(x), expected)
    assert len(run) == 2
    torch.testing.assert_close(second(x), expected)
    assert not set(run) & originals


def test_gradients_through_replicas_reach_the_original() -> None:
    block = ResidualSequential(Record(need_projection=True), nn.Linear(3, 5), Apply("gated", alpha=0.5))
    x = torch.randn(4, 3)
    expected = torch.autograd.grad(block(x).sum(), list(block.parameters()))
    (replica,) = replicas_of(block, 1)
    found = torch.autograd.grad(replica(x).sum(), list(block.parameters()))
    torch.testing.assert_close(found, expected)


def test_making_replicas_leaves_the_original_as_it_is() -> None:
    block = ResidualSequential(Record(need_projection=True), nn.Linear(3, 5), Apply())
    block(torch.zeros(1, 3))
    plan, projection = block.plan, block[2].projection_layer
    for replica in replicas_of(block, 2):
        replica(torch.zeros(1, 3))
    assert block.plan is plan
    assert block[2].projection_layer is projection


def test_hidden_states_and_extras_of_threads_do_not_mix() -> None:
    wrapped = RecurrentWrapper(nn.GRU(4, 4, batch_first=True), return_hidden=True)
    block = block_of(meeting(), wrapped)

    def run(thread: int) -> bool:
        x = numbered_input(thread, 1)
        hidden = torch.full((1, 1 + thread, 4), thread / 10)
        out, extras = block(x, hidden=hidden)
        sequence, last = wrapped.module(x, hidden)
        return torch.equal(out, sequence + x) and torch.equal(extras[0], last)

    assert all(in_threads([lambda thread=thread: run(thread) for thread in range(THREADS)]))  # type: ignore[misc]  # defaults bind


def test_many_threads_that_make_the_first_call_settle_the_sizes_once() -> None:
    start = threading.Barrier(THREADS)
    block = ResidualSequential(Record(need_projection=True), Doubled(), Apply("highway"))
    parameters = [id(parameter) for parameter in block.parameters()]

    def first_call(thread: int) -> Tensor:
        start.wait(timeout=BARRIER_TIMEOUT_S)
        result: Tensor = block(torch.ones(1 + thread, 4))
        return result

    outputs = in_threads([lambda thread=thread: first_call(thread) for thread in range(THREADS)])  # type: ignore[misc]  # defaults bind
    assert [id(parameter) for parameter in block.parameters()] == parameters
    for thread, out in enumerate(outputs):
        torch.testing.assert_close(out, block(torch.ones(1 + thread, 4)))


def test_many_threads_that_make_the_first_call_find_once_that_nothing_is_needed() -> None:
    start = threading.Barrier(THREADS)
    block = ResidualSequential(Record(need_projection=True), _Holds(nn.Tanh()), Apply())
    assert len(list(block.parameters())) == 2

    def first_call() -> Tensor:
        start.wait(timeout=BARRIER_TIMEOUT_S)
        result: Tensor = block(torch.ones(2, 4))
        return result

    expected = torch.ones(2, 4).tanh() + 1
    assert all(torch.equal(out, expected) for out in in_threads([first_call] * THREADS))
    assert list(block.parameters()) == []


def test_an_exception_in_one_thread_disturbs_neither_it_nor_the_others() -> None:
    def fails_for_ones(x: Tensor) -> Tensor:
        if bool((x == 1).all()):
            raise LookupError("on purpose")
        return x

    class Fails(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return fails_for_ones(x)

    block = block_of(Fails())

    def run(value: float) -> bool:
        for _ in range(CALLS):
            if value == 1:
                with pytest.raises(LookupError, match="on purpose"):
                    block(torch.ones(2))
                assert getattr(_context, "current_sequential", None) is None
            if not torch.equal(block(torch.full((2,), 7.0)), torch.full((2,), 14.0)):
                return False
        return True

    assert all(in_threads([lambda value=value: run(value) for value in (1.0, 2.0, 3.0)]))  # type: ignore[misc]  # defaults bind


def test_a_forward_writes_nothing_to_any_module() -> None:
    block = ResidualSequential(
        Record(),
        block_of(nn.Linear(3, 3)),
        nn.Sequential(Record(name="p"), nn.Tanh(), Apply(record_name="p")),
        Apply(),
    )
    before = [dict(module.__dict__) for module in block.modules()]
    plan = block.plan
    block(torch.randn(2, 3))
    for module, state in zip(block.modules(), before, strict=True):
        assert module.__dict__.keys() == state.keys()
        assert all(module.__dict__[key] is value for key, value in state.items())
    assert block.plan is plan


def test_the_innermost_block_is_known_while_it_runs_and_only_then() -> None:
    seen: list[object] = []

    class Looks(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            seen.append(_context.current_sequential)
            return x

    inner = ResidualSequential(Looks())
    outer = ResidualSequential(Looks(), inner, Looks())
    outer(torch.zeros(1))
    assert seen == [outer, inner, outer]
    assert _context.current_sequential is None
