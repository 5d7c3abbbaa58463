from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescli.render.gutter import ASCII, UNICODE, Charset, assign_lanes, draw_gutter

if TYPE_CHECKING:
    from rescli.render.gutter import Gutter, Node

Edges = list[tuple[int, int]]
OPERATIONS: list[Node] = ["add", "concat", "multiply", "gated", "highway"]


@st.composite
def skips(draw: st.DrawFn) -> tuple[list[Node], Edges]:
    """Rows of layers with Records and Applies anywhere among them, each Apply behind the Record it reads."""
    nodes: list[Node] = draw(
        st.lists(st.sampled_from(["record", *OPERATIONS, "layer", "block"]), max_size=40)
    )
    edges = []
    for row, node in enumerate(nodes):
        records = [before for before in range(row) if nodes[before] == "record"]
        if node in OPERATIONS and records and draw(st.booleans()):
            edges.append((draw(st.sampled_from(records)), row))
    return nodes, edges


def lines_of(gutter: Gutter) -> list[str]:
    return ["".join(stroke.text for stroke in row) for row in gutter.rows]


def read_back(lines: list[str], charset: Charset) -> Edges:
    """Follow the arcs of a drawn picture with nothing but the picture, each from its Record to its Applies."""
    edges = []
    begun: dict[int, int] = {}
    for row, line in enumerate(lines):
        drawn = {
            column: mark for column, mark in enumerate(line) if column and mark not in {" ", charset.across}
        }
        joints = {column for column, mark in drawn.items() if mark not in {charset.down, charset.crossing}}
        for column in joints:
            if drawn[column] == charset.leaves:
                assert column not in begun, "an arc begins in the lane of another"
                begun[column] = row
            else:
                edges.append((begun[column], row))
        # Every arc that has begun is drawn in every row, and nothing else is.
        assert set(drawn) == set(begun)
        begun = {column: start for column, start in begun.items() if drawn[column] != charset.arrives}
    assert not begun, "an arc ends nowhere"
    return edges


@pytest.mark.parametrize("charset", [UNICODE, ASCII])
@given(skips())
def test_reading_the_picture_back_gives_the_skips(charset: Charset, drawn: tuple[list[Node], Edges]) -> None:
    nodes, edges = drawn
    assert read_back(lines_of(draw_gutter(nodes, edges, charset)), charset) == edges


def test_reading_back_notices_a_picture_that_lies() -> None:
    lines = lines_of(draw_gutter(["record", "layer", "record", "add", "add"], [(0, 4), (2, 3)], UNICODE))
    swapped = [*lines[:3], lines[4], lines[3]]
    assert read_back(lines, UNICODE) == [(2, 3), (0, 4)]
    with pytest.raises(AssertionError):
        read_back(swapped, UNICODE)


@given(skips())
def test_no_two_arcs_share_a_lane_at_the_same_row(drawn: tuple[list[Node], Edges]) -> None:
    taken: set[tuple[int, int]] = set()
    for net in assign_lanes(drawn[1]):
        cells = {(net.lane, row) for row in range(net.record, net.last + 1)}
        assert not cells & taken
        taken |= cells


@given(skips())
def test_an_arc_within_another_takes_an_inner_lane(drawn: tuple[list[Node], Edges]) -> None:
    nets = assign_lanes(drawn[1])
    for inner in nets:
        for outer in nets:
            if outer.record < inner.record and inner.last < outer.last:
                assert inner.lane < outer.lane


@given(skips())
def test_every_arc_begins_at_its_record_and_ends_at_its_last_apply(drawn: tuple[list[Node], Edges]) -> None:
    nodes, edges = drawn
    gutter = draw_gutter(nodes, edges, UNICODE)
    for number, net in enumerate(gutter.nets):
        marks = {
            row: [stroke.text for stroke in strokes if stroke.net == number]
            for row, strokes in enumerate(gutter.rows)
        }
        rows = [row for row, texts in marks.items() if any(text.strip() for text in texts)]
        assert rows == list(range(net.record, net.last + 1))
        assert (nodes[net.record], marks[net.record][-1]) == ("record", "╮")
        assert (nodes[net.last] in OPERATIONS, marks[net.last][-1]) == (True, "╯")


@given(skips())
def test_both_charsets_draw_the_same_picture(drawn: tuple[list[Node], Edges]) -> None:
    twins = {
        UNICODE.across: ASCII.across,
        UNICODE.down: ASCII.down,
        UNICODE.crossing: ASCII.crossing,
        UNICODE.leaves: ASCII.leaves,
        UNICODE.branches: ASCII.branches,
        UNICODE.arrives: ASCII.arrives,
        **{UNICODE.nodes[kind]: ASCII.nodes[kind] for kind in UNICODE.nodes},
        " ": " ",
    }
    nodes, edges = drawn
    drawn_unicode = lines_of(draw_gutter(nodes, edges, UNICODE))
    ascii_only = lines_of(draw_gutter(nodes, edges, ASCII))
    assert ["".join(twins[mark] for mark in line) for line in drawn_unicode] == ascii_only
    assert "".join(ascii_only).isascii()


@pytest.mark.parametrize("charset", [UNICODE, ASCII])
def test_each_operation_has_a_mark_of_its_own_that_is_none_of_the_lines(charset: Charset) -> None:
    marks = [charset.nodes[operation] for operation in OPERATIONS]
    lines = {
        *(charset.across, charset.down, charset.crossing, charset.leaves, charset.branches, charset.arrives)
    }
    assert len({*charset.nodes.values()}) == len(charset.nodes)
    assert not lines & set(marks)
    assert {len(mark) for mark in marks} == {1}


def test_crossing_skips_cross_and_do_not_join() -> None:
    nodes: list[Node] = ["record", "layer", "record", "layer", "add", "layer", "add"]
    gutter = draw_gutter(nodes, [(0, 4), (2, 6)], UNICODE)
    assert lines_of(gutter) == ["●─╮", "○ │", "●─┼─╮", "○ │ │", "◆─╯ │", "○   │", "◆───╯"]
    assert gutter.width == 5


def test_several_applies_branch_off_one_arc() -> None:
    nodes: list[Node] = ["record", "layer", "add", "layer", "add"]
    assert lines_of(draw_gutter(nodes, [(0, 2), (0, 4)], UNICODE)) == ["●─╮", "○ │", "◆─┤", "○ │", "◆─╯"]


def test_a_row_of_several_lines_lets_the_arcs_pass_below_it() -> None:
    nodes: list[Node] = ["record", "record", "add", "add"]
    gutter = draw_gutter(nodes, [(0, 3), (1, 2)], UNICODE)
    below = ["".join(stroke.text for stroke in row).rstrip() for row in gutter.below]
    assert below == ["    │", "  │ │", "    │", ""]


def test_many_lanes_are_drawn_without_gaps() -> None:
    nodes: list[Node] = ["record" if row < 10 else "add" for row in range(20)]
    gutter = draw_gutter(nodes, [(row, 10 + row) for row in range(10)], UNICODE)
    assert gutter.width == 12
    assert lines_of(gutter)[9] == "●─┼┼┼┼┼┼┼┼┼╮"


@given(skips(), st.integers(0, 4))
def test_with_few_lanes_the_arcs_that_are_drawn_are_still_right(
    drawn: tuple[list[Node], Edges], most: int
) -> None:
    nodes, edges = drawn
    gutter = draw_gutter(nodes, edges, UNICODE, most)
    kept = read_back(lines_of(gutter), UNICODE)
    assert set(kept) <= set(edges)
    assert gutter.left_out == len(edges) - len(kept)
    assert all(net.lane < most for net in gutter.nets)
    if len({net.lane for net in assign_lanes(edges)}) <= most:
        assert kept == edges


def test_the_longest_arcs_are_left_out() -> None:
    nodes: list[Node] = ["record", "record", "record", "add", "add", "add"]
    gutter = draw_gutter(nodes, [(2, 3), (1, 4), (0, 5)], UNICODE, 2)
    assert lines_of(gutter) == ["●", "●───╮", "●─╮ │", "◆─╯ │", "◆───╯", "◆"]
    assert gutter.left_out == 1


def test_rows_without_skips_have_their_mark_alone() -> None:
    nodes: list[Node] = ["block", "layer", "record", "failed"]
    assert lines_of(draw_gutter(nodes, [], UNICODE)) == ["▾", "○", "●", "✗"]
    assert lines_of(draw_gutter([], [], UNICODE)) == []
