"""Who reads which Record: each fault fires where it should, and its twin, which is right, stays silent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.rescli.graph.finding import Case, linear, messages
from torchresidual import Apply, Record, ResidualSequential

if TYPE_CHECKING:
    from torch import nn


def lonely() -> nn.Module:
    with pytest.warns(UserWarning, match="has no Record before it"):
        return ResidualSequential(linear(), Apply())


CASES = {
    "a record that nobody reads": Case(
        lambda: ResidualSequential(Record(name="a"), Record(name="b"), linear(), Apply(record_name="b")),
        lambda: ResidualSequential(
            Record(name="a"), Record(name="b"), linear(), Apply(record_name="b"), Apply(record_name="a")
        ),
        [("unused-record", "warning", "0")],
    ),
    "a record overwritten before it is read": Case(
        lambda: ResidualSequential(
            Record(name="a"), linear(), Record(name="a"), linear(), Apply(record_name="a")
        ),
        lambda: ResidualSequential(
            Record(name="a"),
            linear(),
            Apply(record_name="a"),
            Record(name="a"),
            linear(),
            Apply(record_name="a"),
        ),
        [("record-overwritten", "warning", "0")],
    ),
    "a record of the same name in an inner block overwrites nothing": Case(
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
    "an unknown record": Case(
        lambda: ResidualSequential(
            Record(name="a"), linear(), Apply(record_name="b"), Apply(record_name="a")
        ),
        lambda: ResidualSequential(Record(name="a"), linear(), Apply(record_name="a")),
        [("unknown-record", "error", "2")],
    ),
    "an apply without any record": Case(
        lonely,
        lambda: ResidualSequential(Record(), linear(), Apply()),
        [("unknown-record", "error", "1")],
    ),
    "an apply before its record": Case(
        lambda: ResidualSequential(
            Apply(record_name="a"), linear(), Record(name="a"), Apply(record_name="a")
        ),
        lambda: ResidualSequential(Record(name="a"), Apply(record_name="a")),
        [("apply-before-record", "error", "0")],
    ),
    "a record of an inner block is out of reach": Case(
        lambda: ResidualSequential(
            ResidualSequential(Record(name="a"), linear(), Apply(record_name="a")), Apply(record_name="a")
        ),
        lambda: ResidualSequential(Record(name="a"), ResidualSequential(linear(), Apply(record_name="a"))),
        [("unknown-record", "error", "1")],
    ),
    "a skip applied twice": Case(
        lambda: ResidualSequential(
            Record(name="a"), linear(), Apply(record_name="a"), linear(), Apply(record_name="a")
        ),
        lambda: ResidualSequential(Record(name="a"), linear(), Apply(record_name="a")),
        [("skip-applied-twice", "note", "0")],
    ),
    "several faults at once": Case(
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


@pytest.mark.parametrize("name", CASES)
def test_a_fault_is_found_and_its_twin_is_not(name: str) -> None:
    CASES[name].check()


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
    twice = ResidualSequential(Record(name="a"), linear(), Apply(record_name="a"), Apply(record_name="a"))
    assert messages(twice) == [
        (
            "the record 'a' is applied 2 times, at '2', '3'",
            "where one of them means another Record, name that one",
        )
    ]
    overwritten = ResidualSequential(Record(name="a"), Record(name="a"), linear(), Apply(record_name="a"))
    assert messages(overwritten) == [
        (
            "the record 'a' is recorded again at '1' before an Apply has read it",
            "give one of the two another name",
        )
    ]
