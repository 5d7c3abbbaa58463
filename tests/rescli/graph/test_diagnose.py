"""Each diagnostic fires where it should, and its twin, a block beside it that is right, stays silent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

from rescli.graph.trace import trace
from torchresidual import Apply, Record, ResidualSequential

if TYPE_CHECKING:
    from collections.abc import Callable

Found = list[tuple[str, str, str]]


def found(block: nn.Module) -> Found:
    graph = trace(block, (torch.zeros(2, 4),), name="block", target="a.py:block", origin="spec")
    return [(each.code, each.severity, each.path) for each in graph.diagnostics]


def linear() -> nn.Module:
    return nn.Linear(4, 4)


def lonely() -> nn.Module:
    with pytest.warns(UserWarning, match="has no Record before it"):
        return ResidualSequential(linear(), Apply())


FAULTS: dict[str, tuple[Callable[[], nn.Module], Callable[[], nn.Module], Found]] = {
    "a record that nobody reads": (
        lambda: ResidualSequential(Record(name="a"), Record(name="b"), linear(), Apply(record_name="b")),
        lambda: ResidualSequential(
            Record(name="a"), Record(name="b"), linear(), Apply(record_name="b"), Apply(record_name="a")
        ),
        [("unused-record", "warning", "0")],
    ),
    "a record overwritten before it is read": (
        lambda: ResidualSequential(
            Record(name="a"), linear(), Record(name="a"), linear(), Apply(record_name="a")
        ),
        lambda: ResidualSequential(
            Record(name="a"), linear(), Apply(record_name="a"), Record(name="a"), Apply(record_name="a")
        ),
        [("record-overwritten", "warning", "0")],
    ),
    "a record of the same name in an inner block overwrites nothing": (
        lambda: ResidualSequential(
            Record(name="a"), ResidualSequential(Record(name="a"), linear(), Apply(record_name="a"))
        ),
        lambda: ResidualSequential(
            Record(name="a"),
            ResidualSequential(Record(name="a"), linear(), Apply(record_name="a")),
            Apply(record_name="a"),
        ),
        [("unused-record", "warning", "0")],
    ),
    "an unknown record": (
        lambda: ResidualSequential(
            Record(name="a"), linear(), Apply(record_name="b"), Apply(record_name="a")
        ),
        lambda: ResidualSequential(Record(name="a"), linear(), Apply(record_name="a")),
        [("unknown-record", "error", "2")],
    ),
    "an apply without any record": (
        lonely,
        lambda: ResidualSequential(Record(), linear(), Apply()),
        [("unknown-record", "error", "1")],
    ),
    "an apply before its record": (
        lambda: ResidualSequential(
            Apply(record_name="a"), linear(), Record(name="a"), Apply(record_name="a")
        ),
        lambda: ResidualSequential(Record(name="a"), Apply(record_name="a")),
        [("apply-before-record", "error", "0")],
    ),
    "a record of an inner block is out of reach": (
        lambda: ResidualSequential(
            ResidualSequential(Record(name="a"), linear(), Apply(record_name="a")), Apply(record_name="a")
        ),
        lambda: ResidualSequential(Record(name="a"), ResidualSequential(linear(), Apply(record_name="a"))),
        [("unknown-record", "error", "1")],
    ),
    "a skip applied twice": (
        lambda: ResidualSequential(
            Record(name="a"), linear(), Apply(record_name="a"), linear(), Apply(record_name="a")
        ),
        lambda: ResidualSequential(Record(name="a"), linear(), Apply(record_name="a")),
        [("skip-applied-twice", "note", "0")],
    ),
    "shapes that do not fit": (
        lambda: ResidualSequential(Record(name="a"), nn.Linear(4, 8), Apply(record_name="a")),
        lambda: ResidualSequential(Record(True, "a"), nn.Linear(4, 8), Apply(record_name="a")),
        [("shape-mismatch", "error", "2")],
    ),
    "a layer that fails": (
        lambda: ResidualSequential(Record(), linear(), Apply(), nn.Linear(3, 3)),
        lambda: ResidualSequential(Record(), linear(), Apply(), nn.Linear(4, 3)),
        [("layer-failed", "error", "3")],
    ),
    "several faults at once": (
        lambda: ResidualSequential(
            Record(name="a"), Apply(record_name="b"), Apply(record_name="c"), Record(name="c")
        ),
        lambda: ResidualSequential(Record(name="a"), Apply(record_name="a")),
        [
            ("unknown-record", "error", "1"),
            ("apply-before-record", "error", "2"),
            ("unused-record", "warning", "0"),
        ],
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_and_its_twin_is_not(name: str) -> None:
    faulty, twin, expected = FAULTS[name]
    assert found(faulty()) == expected
    assert found(twin()) == []


def messages(block: nn.Module) -> list[tuple[str, str]]:
    graph = trace(block, (torch.zeros(2, 4),), name="block", target="a.py:block", origin="spec")
    return [(each.message, each.hint) for each in graph.diagnostics]


def test_messages_say_what_was_found_and_what_to_do() -> None:
    assert messages(ResidualSequential(Record(name="a"), linear(), Apply(record_name="b"))) == [
        (
            "the Apply asks for a Record named 'b', and none is in reach; Records of the block: 'a'",
            "name one of them in record_name=, or add the Record before the Apply",
        ),
        (
            "the record 'a' is never read by an Apply",
            "add an Apply that names it, or take the Record out",
        ),
    ]
    assert messages(ResidualSequential(Apply(record_name="a"), Record(name="a"))) == [
        (
            "the Apply reads the record 'a', which stands after it at '1'",
            "put the Record before the layers that the skip spans",
        )
    ]
    assert messages(nn.Sequential(nn.Linear(3, 3))) == [
        (
            "Linear failed on input (2, 4): mat1 and mat2 shapes cannot be multiplied (2x4 and 3x3)",
            "compare the shape with what the layer takes; --input gives another one",
        )
    ]
    twice = ResidualSequential(Record(name="a"), linear(), Apply(record_name="a"), Apply(record_name="a"))
    assert messages(twice) == [("the record 'a' is applied 2 times, at '2', '3'", "")]
    overwritten = ResidualSequential(Record(name="a"), Record(name="a"), Apply(record_name="a"))
    assert messages(overwritten) == [
        (
            "the record 'a' is recorded again at '1' before an Apply has read it",
            "give one of the two another name",
        )
    ]


def test_a_shape_mismatch_shows_both_shapes() -> None:
    ((message, hint),) = messages(
        ResidualSequential(Record(name="a"), nn.Linear(4, 8), Apply(record_name="a"))
    )
    assert "recorded (2, 4), current (2, 8)" in message
    assert "need_projection=True" in message
    assert hint == "Apply(projection=...) takes a module of your own for the skip"
