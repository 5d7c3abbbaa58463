from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescli.graph import fold as fold_module
from rescli.graph.fold import Fold, Tie, alike, find_folds, representatives
from tests.rescli.graph.listings import listing, texts, ties_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rescli.graph.model import LayerFact


def shown(text: str, ties: Sequence[Tie] | None = None) -> str:
    """Write what is left of a listing: groups in round brackets, with how often they come."""
    rows = listing(text)
    folds = find_folds(rows, ties_of(text) if ties is None else ties)
    begins: dict[int, list[Fold]] = {}
    for fold in folds:
        begins.setdefault(fold.start, []).append(fold)
    written: list[str] = []
    ends: list[Fold] = []
    for row, stands in enumerate(representatives(len(rows), folds)):
        while ends and ends[-1].start + ends[-1].length <= row:
            written.append(f")*{ends.pop().times}")
        if stands == row:
            ends += begins.get(row, ())
            written.append("(" * len(begins.get(row, ())) + rows[row].type)
    return "".join(written) + "".join(f")*{fold.times}" for fold in reversed(ends))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("xxxx", "(x)*4"),
        ("xx", "(x)*2"),
        ("xyxyxy", "(xy)*3"),
        ("xyzxyz", "(xyz)*2"),
        # A heading and two rows instead of four are no shorter listing.
        ("xyxy", "xyxy"),
        ("yxxxz", "y(x)*3z"),
        ("[x][x][x]", "([x)*3"),
        ("[xxx][xxx]", "([(x)*3)*2"),
        ("xxxyxxxy", "((x)*3y)*2"),
        ("xxyxyxy", "x(xy)*3"),
        ("RxARxARxA", "(RxA)*3"),
        # Not from where the skips would be cut.
        ("yARxyARxyARx", "yA(RxyA)*2Rx"),
        ("[RxA]y[RxA]y[RxA]y", "([RxAy)*3"),
        ("RxxxA", "R(x)*3A"),
        ("[x]yy[x]", "[x(y)*2[x"),
        ("xyz", "xyz"),
        ("", ""),
    ],
)
def test_equal_neighbours_become_one(text: str, expected: str) -> None:
    assert shown(text) == expected


def test_a_skip_into_a_group_keeps_it_open() -> None:
    rows = "R[xA][xA][xA]"
    into = [Tie(0, 3, "add"), Tie(0, 5, "add"), Tie(0, 7, "add")]
    assert shown(rows, into) == "R[xA[xA[xA"
    assert shown(rows, []) == "R([xA)*3"


def test_a_skip_from_one_instance_to_the_next_keeps_both_open() -> None:
    assert shown("RxyARxyA", []) == "(RxyA)*2"
    assert shown("RxyARxyA", [Tie(0, 7, "add")]) == "RxyARxyA"
    assert shown("RxyARxyARxyA", [Tie(0, 7, "add"), Tie(4, 11, "add")]) == "RxyARxyARxyA"


def test_a_skip_that_passes_a_group_leaves_it_folded() -> None:
    assert shown("RxxxxA", [Tie(0, 5, "add")]) == "R(x)*4A"


def test_skips_that_look_different_keep_their_groups_open() -> None:
    assert shown("RxyARxyA", [Tie(0, 3, "add"), Tie(4, 7, "add")]) == "(RxyA)*2"
    assert shown("RxyARxyA", [Tie(0, 3, "add"), Tie(4, 7, "concat")]) == "RxyARxyA"


@pytest.mark.parametrize(
    ("change", "is_folded"),
    [
        ({"output": "(2, 5)"}, False),
        ({"detail": "4 -> 4"}, False),
        ({"parameters": 7}, False),
        ({"flops": None}, False),
        ({"reused": True}, False),
        ({"dtype": "float64"}, False),
        ({"memory_format": "channels_last"}, False),
        ({"failed": True}, False),
        ({"path": "path.99"}, True),
        ({"index": 99}, True),
    ],
)
def test_only_what_looks_the_same_is_folded(change: dict[str, object], *, is_folded: bool) -> None:
    first, second = listing("xx")
    changed = replace(second, **change)  # type: ignore[arg-type] # by keyword
    assert bool(find_folds([first, changed], [])) == is_folded


def test_names_may_differ_in_their_numbers_only() -> None:
    assert alike("record_12") == alike("record_3") != alike("input")
    assert alike(None) is None
    first, second = listing("[x][x]")[::2]
    rows = [replace(first, path="layer1"), replace(second, path="layer2")]
    assert len(find_folds(rows, [])) == 1
    assert find_folds([rows[0], replace(second, path="head")], []) == ()


def test_what_else_is_seen_of_a_row_counts() -> None:
    assert find_folds(listing("xx"), [], ["a", "a"]) == (Fold(0, 1, 2, 1),)
    assert find_folds(listing("xx"), [], ["a", "b"]) == ()


def check(rows: Sequence[LayerFact], ties: Sequence[Tie], folds: Sequence[Fold]) -> None:
    """Assert that unfolding gives the whole listing back, row by row and skip by skip."""
    stands = representatives(len(rows), folds)

    def seen(row: LayerFact) -> LayerFact:
        name = row.record and re.sub(r"\d", "", row.record)
        return replace(row, index=0, path="", record=name)

    assert [seen(rows[place]) for place in stands] == [seen(row) for row in rows]
    times = Counter(stands)
    assert sum(rows[place].parameters * count for place, count in times.items()) == sum(
        row.parameters for row in rows
    )
    # A skip among the rows that are shown stands for one in each of the rows that its ends stand for.
    stood_for = Counter((stands[tie.first], stands[tie.last], tie.likeness) for tie in ties)
    own = Counter((tie.first, tie.last, tie.likeness) for tie in ties)
    for (first, last, likeness), count in stood_for.items():
        assert own[first, last, likeness] > 0
        assert times[first] == times[last]
        assert count == own[first, last, likeness] * times[first]
    for fold in folds:
        for start in range(fold.start, fold.start + fold.length * fold.times, fold.length):
            instance = range(start, start + fold.length)
            assert all((tie.first in instance) == (tie.last in instance) for tie in ties)


@given(texts())
def test_unfolding_gives_every_row_and_skip_back(text: str) -> None:
    rows, ties = listing(text), ties_of(text)
    check(rows, ties, find_folds(rows, ties))


@given(texts(), st.data())
def test_no_skip_is_hidden_wherever_skips_lead(text: str, data: st.DataObject) -> None:
    rows = listing(text)
    records, applies = ([row.index for row in rows if row.type == mark] for mark in "RA")
    ties = []
    for last in applies:
        before = [row for row in records if row < last]
        first = data.draw(st.sampled_from([None, *before]))
        if first is not None:
            ties.append(Tie(first, last, "add"))
    check(rows, ties, find_folds(rows, ties))


def test_a_fold_that_ignores_skips_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, ties = listing("RxyARxyARxyA"), [Tie(0, 7, "add"), Tie(4, 11, "add")]
    monkeypatch.setattr(fold_module._Tree, "_is_closed", lambda *_: True)
    monkeypatch.setattr(fold_module._Tree, "_knot", lambda *_: None)
    folds = find_folds(rows, ties)
    assert folds == (Fold(0, 4, 3, 4),)
    with pytest.raises(AssertionError):
        check(rows, ties, folds)


def test_thousands_of_rows_with_hundreds_of_skips_are_folded() -> None:
    text = "".join(f"R{'xy'[at % 2]}{'x' * (at % 4)}A" for at in range(1_600))
    rows, ties = listing(text), ties_of(text)
    folds = find_folds(rows, ties)
    assert (len(rows), folds[0]) == (7_200, Fold(start=0, length=18, times=400, siblings=18))
    check(rows, ties, folds)
