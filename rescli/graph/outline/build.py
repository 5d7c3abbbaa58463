"""From a graph to the lines of its listing."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rescli.graph.fold import Tie, alike, find_folds, representatives
from rescli.graph.outline.depth import limit_depth
from rescli.graph.outline.model import Line, Outline, Remark, Skip

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from rescli.graph.fold import Fold
    from rescli.graph.model import BlockGraph, Diagnostic, EdgeFact, InsertedFact
    from rescli.graph.outline.depth import Shallow


def outline(graph: BlockGraph, *, depth: int | None = None, fold: bool = True) -> Outline:
    """Choose what a reader gets of a block.

    Args:
        graph: The facts.
        depth: The deepest level that keeps its rows; None keeps all. See ``limit_depth``.
        fold: Whether equal neighbours become one, see ``find_folds``, and equal diagnostics too.
    """
    shallow = limit_depth(graph.layers, graph.edges, depth)
    listed = [
        edge for edge in graph.edges if shallow.places[edge.record_index] != shallow.places[edge.apply_index]
    ]
    folds = find_folds(shallow.rows, _ties(listed, shallow), shallow.insides) if fold else ()
    shown = representatives(len(shallow.rows), folds)
    counts = Counter(shown)
    lines: list[Line] = []
    lines_of_rows: dict[int, int] = {}
    for line, place in _lines(shallow, folds, shown):
        if place is not None:
            lines_of_rows[place] = len(lines)
        lines.append(line)
    skips = []
    for edge in listed:
        first, last = shallow.places[edge.record_index], shallow.places[edge.apply_index]
        if shown[first] != first or shown[last] != last:
            continue
        has_arc = shallow.is_shown(edge.record_index) and shallow.is_shown(edge.apply_index)
        arc = (lines_of_rows[first], lines_of_rows[last]) if has_arc else None
        skips.append(Skip(edge, arc, counts[first]))
    remarks = _told_once(graph.diagnostics) if fold else map(Remark, graph.diagnostics)
    return Outline(tuple(lines), tuple(skips), len(graph.edges) - len(listed), tuple(remarks))


def _told_once(diagnostics: Iterable[Diagnostic]) -> Iterator[Remark]:
    """Put diagnostics that say the same of several places together, where the first of them stands."""
    groups: dict[Hashable, list[Diagnostic]] = {}
    for each in diagnostics:
        groups.setdefault((each.code, each.severity, each.message, each.hint), []).append(each)
    for first, *others in groups.values():
        yield Remark(first, tuple(other.path for other in others))


def _lines(
    shallow: Shallow, folds: Sequence[Fold], shown: Sequence[int]
) -> Iterator[tuple[Line, int | None]]:
    """Give the lines in order, each with the place of its row; headings have none."""
    outermost = min((row.depth for row in shallow.rows), default=0)
    repeats: dict[int, int] = {}
    headings: dict[int, list[Fold]] = {}
    for fold in folds:
        if fold.siblings == 1:
            repeats[fold.start] = fold.times
        else:
            headings.setdefault(fold.start, []).append(fold)
    ends: list[int] = []  # of the groups around
    for place, row in enumerate(shallow.rows):
        if shown[place] != place:
            continue
        while ends and ends[-1] <= place:
            ends.pop()
        level = row.depth - outermost
        for fold in headings.get(place, ()):
            inside = shallow.rows[fold.start : fold.start + fold.length]
            types = tuple(each.type for each in inside if each.depth == row.depth)
            yield Line(None, level + len(ends), fold.times, types), None
            ends.append(fold.start + fold.length)
        yield (
            Line(
                row,
                level + len(ends),
                repeats.get(place, 1),
                is_lower_bound=place in shallow.lower_bounds,
                inside=shallow.insides[place],
            ),
            place,
        )


def _ties(edges: Sequence[EdgeFact], shallow: Shallow) -> list[Tie]:
    return [
        Tie(shallow.places[edge.record_index], shallow.places[edge.apply_index], _likeness(edge))
        for edge in edges
    ]


def _likeness(edge: EdgeFact) -> Hashable:
    """Say what a reader sees of a skip."""
    return (
        *(alike(edge.record), edge.operation, edge.alpha, edge.scale, edge.dim),
        *(edge.recorded_shape, edge.current_shape, edge.bytes_held, edge.held_layers),
        *(edge.span, edge.span_flops, _of_inserted(edge.projection), _of_inserted(edge.gates)),
    )


def _of_inserted(fact: InsertedFact | None) -> Hashable:
    if fact is None:
        return None
    return (fact.type, fact.detail, fact.parameters, fact.flops, fact.origin, fact.sized, fact.layout)
