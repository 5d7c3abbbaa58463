from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from rescli.graph.model import EdgeFact
from rescli.graph.outline.depth import limit_depth
from rescli.graph.outline.model import Inside
from tests.rescli.graph.listings import listing, texts, ties_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rescli.graph.model import LayerFact


def edges_of(text: str) -> list[EdgeFact]:
    return [edge(tie.first, tie.last) for tie in ties_of(text)]


def edge(first: int, last: int) -> EdgeFact:
    return EdgeFact(
        record="r",
        record_path=f"path.{first}",
        apply_path=f"path.{last}",
        operation="add",
        alpha=None,
        scale=None,
        recorded_shape=(2, 4),
        current_shape=(2, 4),
        span=1,
        span_flops=0,
        bytes_held=32,
        held_layers=1,
        projection=None,
        gates=None,
        dim=None,
        record_index=first,
        apply_index=last,
    )


def totals(rows: Sequence[LayerFact]) -> tuple[int, int]:
    return sum(row.parameters for row in rows), sum(row.flops or 0 for row in rows)


def test_deeper_levels_are_summed_up_in_the_row_around_them() -> None:
    rows = listing("x[y[xx]]z")
    shallow = limit_depth(rows, [], 1)
    assert [(row.index, row.type) for row in shallow.rows] == [(0, "x"), (1, "["), (6, "z")]
    assert shallow.rows[1].parameters == ord("y") + 2 * ord("x")
    assert shallow.rows[1].flops == 10 * (ord("y") + 2 * ord("x"))
    assert shallow.insides == (None, Inside(rows=4), None)
    assert shallow.places == (0, 1, 1, 1, 1, 1, 2)
    assert [row.type for row in limit_depth(rows, [], 2).rows] == ["x", "[", "y", "[", "z"]


def test_without_a_limit_nothing_changes() -> None:
    rows = listing("x[y[xx]]z")
    assert limit_depth(rows, [], None).rows == tuple(rows) == limit_depth(rows, [], 3).rows


def test_skips_inside_and_across_the_border_are_counted() -> None:
    #       0 1 2 3 4 5 6
    text = "R[RxAA]x"
    edges = [edge(2, 4), edge(0, 5)]
    shallow = limit_depth(listing(text), edges, 1)
    assert shallow.insides == (None, Inside(rows=4, skips=1, crossing=1), None)
    assert [shallow.is_shown(index) for index in (0, 1, 2, 5, 6)] == [True, True, False, False, True]


def test_a_sum_with_unknown_parts_is_a_lower_bound() -> None:
    rows = listing("[xy]x")
    rows[1] = replace(rows[1], flops=None)
    shallow = limit_depth(rows, [], 1)
    assert (shallow.rows[0].flops, shallow.lower_bounds) == (10 * ord("y"), frozenset({0}))
    rows[0], rows[2] = replace(rows[0], flops=None), replace(rows[2], flops=None)
    assert limit_depth(rows, [], 1).rows[0].flops is None


def test_a_failure_that_is_summed_up_stays_seen() -> None:
    rows = listing("[x]")
    rows[1] = replace(rows[1], failed=True)
    assert limit_depth(rows, [], 1).rows[0].failed


@given(texts(), st.integers(1, 4))
def test_the_rows_sum_to_the_total_at_every_depth(text: str, depth: int) -> None:
    rows, edges = listing(text), edges_of(text)
    shallow = limit_depth(rows, edges, depth)
    assert totals(shallow.rows) == totals(rows)
    assert [row.index for row in shallow.rows] == [row.index for row in rows if row.depth <= depth]
    insides = [inside for inside in shallow.insides if inside]
    assert sum(inside.rows for inside in insides) == len(rows) - len(shallow.rows)
    hidden = [edge for edge in edges if shallow.places[edge.record_index] == shallow.places[edge.apply_index]]
    assert sum(inside.skips for inside in insides) == len(hidden)


def test_a_sum_that_forgets_a_row_would_be_seen() -> None:
    rows = listing("x[y]")
    assert totals(limit_depth(rows, [], 1).rows[:-1]) != totals(rows)
