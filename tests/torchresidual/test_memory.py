from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn

from tests.torchresidual.toys import Calls, InOrder, KeepsOnSelf
from torchresidual import Apply, Record, ResidualSequential
from torchresidual.memory import shares_memory, version_of

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _without_garbage_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class Watch:
    """Layers that take hold of a tensor weakly, and say later whether it is alive."""

    def __init__(self) -> None:
        self.reference: weakref.ref[Tensor] | None = None
        self.alive: list[bool] = []

    def take(self, x: Tensor) -> None:
        self.reference = weakref.ref(x)

    def look(self, _: Tensor) -> None:
        self.alive.append(self.is_alive())

    def is_alive(self) -> bool:
        assert self.reference is not None
        return self.reference() is not None


def new() -> nn.Module:
    """A layer that makes a new tensor and saves nothing for a backward."""
    return nn.Linear(3, 3).requires_grad_(requires_grad=False)


def watched(kind: str, watch: Watch) -> ResidualSequential:
    take, look = Calls(watch.take), Calls(watch.look)
    blocks = {
        "plain": lambda: ResidualSequential(new(), take, Record(), new(), look, Apply(), new(), look, new()),
        "two readers": lambda: ResidualSequential(
            new(),
            take,
            Record(name="r"),
            new(),
            Apply(record_name="r"),
            look,
            Apply(record_name="r"),
            new(),
            look,
        ),
        "container": lambda: ResidualSequential(
            nn.Sequential(new(), take, Record(name="r"), new()),
            look,
            nn.Sequential(Apply(), new()),
            look,
            new(),
        ),
        "reads out": lambda: ResidualSequential(
            new(),
            take,
            Record(name="r"),
            new(),
            look,
            ResidualSequential(new(), Apply(record_name="r")),
            new(),
            look,
        ),
        "own layer": lambda: ResidualSequential(
            new(), take, Record(name="r"), new(), look, InOrder(new(), Apply(record_name="r")), new(), look
        ),
    }
    return blocks[kind]()


KINDS = ("plain", "two readers", "container", "reads out", "own layer")


@pytest.mark.parametrize("hooked", [False, True], ids=["", "hooked"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_recorded_tensor_dies_at_its_last_apply(kind: str, hooked: bool) -> None:
    watch = Watch()
    block = watched(kind, watch)
    if hooked:
        for module in block.modules():
            if isinstance(module, Record | Apply):
                module.register_forward_hook(lambda *_: None)
    block(torch.zeros(2, 3))
    assert watch.alive[0]
    assert not watch.alive[1]


def test_a_record_that_nobody_reads_holds_nothing() -> None:
    watch = Watch()
    block = ResidualSequential(new(), Calls(watch.take), Record(), new(), Calls(watch.look), new())
    block(torch.zeros(2, 3))
    assert watch.alive == [False]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_held_after_forward(kind: str) -> None:
    watch = Watch()
    block = watched(kind, watch)
    out = block(torch.zeros(2, 3))
    assert not watch.is_alive()
    assert out.shape == (2, 3)


def test_a_tensor_that_autograd_needs_dies_with_the_graph() -> None:
    watch = Watch()
    block = ResidualSequential(
        nn.Linear(3, 3), Calls(watch.take), Record(), nn.Linear(3, 3), Apply("multiply")
    )
    out = block(torch.zeros(2, 3))
    del out
    assert not watch.is_alive()


@pytest.mark.parametrize("hooked", [False, True], ids=["", "hooked"])
def test_nothing_is_held_after_an_exception_once_it_is_released(hooked: bool) -> None:
    watch = Watch()

    def fail(_: Tensor) -> None:
        raise LookupError("on purpose")

    block = ResidualSequential(
        new(), Calls(watch.take), Record(name="r"), ResidualSequential(Calls(fail)), Apply()
    )
    if hooked:
        for module in block.modules():
            module.register_forward_hook(lambda *_: None)
    caught = None
    try:
        block(torch.zeros(2, 3))
    except LookupError as error:
        caught = error
    assert watch.is_alive()
    assert caught is not None
    del caught
    assert not watch.is_alive()


def test_nothing_is_held_after_an_error_of_ours_once_it_is_released() -> None:
    watch = Watch()
    block = ResidualSequential(new(), Calls(watch.take), Record(name="r"), nn.Linear(3, 1), Apply())
    failed = False
    try:
        block(torch.zeros(2, 3))
    except RuntimeError:
        failed = True
    assert failed
    assert not watch.is_alive()


def test_the_same_method_finds_a_block_that_holds_on() -> None:
    watch = Watch()
    block = nn.Sequential(new(), Calls(watch.take), KeepsOnSelf(new()))
    block(torch.zeros(2, 3))
    assert watch.is_alive()


def test_a_record_on_its_own_shows_its_tensor_only_while_somebody_else_holds_it() -> None:
    record, x = Record(), torch.zeros(2)
    assert record(x) is x
    assert record.recorded_tensor is x
    assert record.recorded_shape == (2,)
    del x
    assert record.recorded_tensor is None
    assert record.recorded_shape is None


def test_views_share_memory_and_copies_do_not() -> None:
    x = torch.zeros(2, 3)
    packed = nn.utils.rnn.pack_sequence([x])
    assert shares_memory(x.view(6), x)
    assert shares_memory(packed, packed.data)
    assert not shares_memory(x.clone(), x)
    assert not shares_memory(None, x)


def test_versions_count_writes_where_somebody_counts() -> None:
    x = torch.zeros(2)
    before = version_of(x)
    x.add_(1)
    assert version_of(x) != before
    with torch.inference_mode():
        assert version_of(torch.zeros(2)) is None
