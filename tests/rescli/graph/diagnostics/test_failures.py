"""Where a block stops: what does not fit, what would, and which layer raised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from torch import Tensor, nn

from tests.rescli.graph.finding import Case, found, linear, messages
from torchresidual import Apply, Record, ResidualSequential

if TYPE_CHECKING:
    from collections.abc import Callable


def unet(depth: int) -> nn.Module:
    """Halve so often, double as often, and join what was recorded on the way down."""
    down = [layer for level in range(depth) for layer in (Record(name=f"{level}"), nn.MaxPool2d(2))]
    up = [
        layer
        for level in reversed(range(depth))
        for layer in (nn.Upsample(scale_factor=2), Apply("concat", f"{level}"))
    ]
    return ResidualSequential(nn.Conv2d(3, 4, 1), *down, *up)


class Writes(nn.Module):
    """Writes into its input, which nobody can know beforehand."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * x.add_(1)


class Body(nn.Module):
    """Calls a block of its own."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.body(x)
        return result


def writing() -> nn.Module:
    return ResidualSequential(Record(name="a"), Writes(), Apply(record_name="a"))


CASES = {
    "a layer that writes into what is recorded": Case(
        writing,
        lambda: ResidualSequential(Record(name="a"), linear(), Writes(), Apply(record_name="a")),
        [("in-place-write", "error", "1")],
    ),
    "shapes that do not fit": Case(
        lambda: ResidualSequential(Record(name="a"), nn.Linear(4, 8), Apply(record_name="a")),
        lambda: ResidualSequential(Record(True, "a"), nn.Linear(4, 8), Apply(record_name="a")),
        [("shape-mismatch", "error", "2")],
    ),
    "a layer that fails": Case(
        lambda: ResidualSequential(Record(), linear(), Apply(), nn.Linear(3, 3)),
        lambda: ResidualSequential(Record(), linear(), Apply(), nn.Linear(4, 3)),
        [("layer-failed", "error", "3")],
    ),
    "an apply without a record is no mismatch and no failed layer": Case(
        lambda: ResidualSequential(Record(name="a"), nn.Linear(4, 8), Apply(record_name="b")),
        lambda: ResidualSequential(Record(name="b"), nn.Linear(4, 4), Apply(record_name="b")),
        [("unknown-record", "error", "2"), ("unused-record", "warning", "0")],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_fault_is_found_and_its_twin_is_not(name: str) -> None:
    CASES[name].check()


@pytest.mark.parametrize(
    ("block", "path"),
    [
        (lambda: ResidualSequential(linear(), writing()), "1.1"),
        (lambda: nn.Sequential(linear(), writing()), "1.1"),
        (lambda: ResidualSequential(Body(writing())), "0.body.1"),
        (lambda: nn.Sequential(Body(writing())), "0.body.1"),
    ],
)
def test_the_layer_that_writes_is_named_from_the_outermost_block_on(
    block: Callable[[], nn.Module], path: str
) -> None:
    assert found(block()) == [("in-place-write", "error", path)]


def test_a_layer_that_writes_is_told_what_to_do() -> None:
    ((message, hint),) = messages(writing())
    assert message == (
        "Writes: it changed the tensor recorded as 'a' in place; let it make a new tensor (x = x + 1, not x += 1)"
    )
    assert hint == "or put it behind a layer that makes a new tensor"


def test_a_failed_layer_is_told_with_what_it_was_given() -> None:
    assert messages(nn.Sequential(nn.Linear(3, 3))) == [
        (
            "Linear failed on input (2, 4): mat1 and mat2 shapes cannot be multiplied (2x4 and 3x3)",
            "compare the shape with what the layer takes; --input gives another one",
        )
    ]


PROJECTION = "or set need_projection=True in the Record: a projection"
OWN = "give the Apply a projection= of your own that turns"


@dataclass(frozen=True)
class Mismatch:
    """Layers whose Apply fails, and the hint it comes with."""

    layers: Callable[[], tuple[nn.Module, ...]]
    shape: tuple[int, ...]
    hint: str


MISMATCHES = {
    "another width": Mismatch(
        lambda: (Record(name="a"), nn.Linear(4, 8), Apply(record_name="a")),
        (2, 4),
        f"let the layers between end with 4 in dimension 1, {PROJECTION} 4 -> 8",
    ),
    "x would grow": Mismatch(
        lambda: (Record(name="a"), nn.Linear(8, 1), Apply(record_name="a")),
        (4, 8),
        f"let the layers between end with 8 in dimension 1, {PROJECTION} 8 -> 1",
    ),
    "a stride": Mismatch(
        lambda: (Record(name="s"), nn.Conv2d(4, 8, 3, 2, 1), Apply(record_name="s")),
        (2, 4, 6, 6),
        "set need_projection=True in the Record: a 1x1 convolution 4 -> 8 with stride 2",
    ),
    "a border that is lost": Mismatch(
        lambda: (Record(name="s"), nn.Conv2d(4, 8, 3), Apply(record_name="s")),
        (2, 4, 6, 6),
        f"let the layers between end with 6 in dimension 2 and 6 in dimension 3, or {OWN} (2, 4, 6, 6) into "
        "(2, 8, 4, 4)",
    ),
    "a border that is lost before a concat": Mismatch(
        lambda: (Record(name="s"), nn.Conv2d(4, 8, 3), Apply("concat", "s")),
        (2, 4, 6, 6),
        "let the layers between end with 6 in dimension 2 and 6 in dimension 3",
    ),
    "upsampling": Mismatch(
        lambda: (Record(True, "s"), nn.Conv1d(4, 4, 1), nn.Upsample(scale_factor=2), Apply(record_name="s")),
        (2, 4, 6),
        f"{OWN} (2, 4, 6) into (2, 4, 12)",
    ),
    "another number of dimensions": Mismatch(
        lambda: (Record(name="s"), nn.Conv1d(4, 4, 3), nn.Flatten(), Apply(record_name="s")),
        (2, 4, 6),
        f"{OWN} (2, 4, 6) into (2, 16)",
    ),
    "a projection of one's own": Mismatch(
        lambda: (Record(name="s"), nn.Linear(4, 8), Apply(record_name="s", projection=nn.Linear(4, 5))),
        (2, 4),
        "let the projection turn (2, 4) into (2, 8)",
    ),
}


@pytest.mark.parametrize("name", MISMATCHES)
def test_a_mismatch_says_which_sizes_fit(name: str) -> None:
    case = MISMATCHES[name]
    ((_, hint),) = messages(ResidualSequential(*case.layers()), case.shape)
    assert hint == case.hint


def test_a_mismatch_shows_both_shapes() -> None:
    ((message, _),) = messages(ResidualSequential(Record(name="a"), nn.Linear(4, 8), Apply(record_name="a")))
    assert "recorded (2, 4), current (2, 8)" in message
    assert "need_projection=True" in message


def test_a_unet_at_100_is_told_the_multiples_that_fit() -> None:
    ((message, hint),) = messages(unet(4), (1, 3, 100, 100))
    assert "(1, 8, 24, 24) with recorded (1, 4, 25, 25)" in message
    assert hint == (
        "take multiples of 16 in dimensions 2 and 3 of the input, not 100 and 100: "
        "--input 1x3x96x96 or --input 1x3x112x112 fits"
    )
    for size in (96, 112):
        assert messages(unet(4), (1, 3, size, size)) == []


def test_only_the_side_that_does_not_fit_is_changed() -> None:
    ((_, hint),) = messages(unet(2), (1, 3, 8, 6))
    assert hint == (
        "take multiples of 4 in dimension 3 of the input, not 6: --input 1x3x8x4 or --input 1x3x8x8 fits"
    )
