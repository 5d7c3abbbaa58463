"""The rows down to a depth, each with the figures of what lies deeper in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rescli.graph.outline.model import Inside

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rescli.graph.model import EdgeFact, LayerFact


@dataclass(frozen=True, slots=True)
class Shallow:
    """What is left of the rows of a graph.

    Args:
        rows: Those that are shown, with summed figures; their ``index`` is still that of the whole listing.
        insides: For each of them what is summed up in it.
        lower_bounds: The places in ``rows`` whose sum of operations is not complete.
        places: For each row of the whole listing the place in ``rows`` of the one that shows it.
    """

    rows: tuple[LayerFact, ...]
    insides: tuple[Inside | None, ...]
    lower_bounds: frozenset[int]
    places: tuple[int, ...]

    def is_shown(self, index: int) -> bool:
        """Say whether a row of the whole listing has a row of its own.

        Args:
            index: Its index.
        """
        return self.rows[self.places[index]].index == index


def limit_depth(layers: Sequence[LayerFact], edges: Sequence[EdgeFact], depth: int | None = None) -> Shallow:
    """Sum up what lies below a depth in the row that it lies in. The rows still sum to the total.

    Args:
        layers: The rows of a graph.
        edges: Its skips.
        depth: The deepest level that keeps its rows: 1 is that of the block's own children. None keeps all.
    """
    shown: list[list[LayerFact]] = []
    places = []
    for row in layers:
        if depth is None or row.depth <= depth or not shown:
            shown.append([row])
        else:
            shown[-1].append(row)
        places.append(len(shown) - 1)
    skips, crossing = [0] * len(shown), [0] * len(shown)
    for edge in edges:
        first, last = places[edge.record_index], places[edge.apply_index]
        if first == last:
            skips[first] += 1
            continue
        for place, index in ((first, edge.record_index), (last, edge.apply_index)):
            crossing[place] += shown[place][0].index != index
    return Shallow(
        rows=tuple(rows[0] if len(rows) == 1 else _summed(rows) for rows in shown),
        insides=tuple(
            None if len(rows) == 1 else Inside(len(rows) - 1, skips[place], crossing[place])
            for place, rows in enumerate(shown)
        ),
        lower_bounds=frozenset(
            place
            for place, rows in enumerate(shown)
            if len(rows) > 1 and any(row.flops is None for row in rows)
        ),
        places=tuple(places),
    )


def _summed(rows: Sequence[LayerFact]) -> LayerFact:
    known = [row.flops for row in rows if row.flops is not None]
    return replace(
        rows[0],
        parameters=sum(row.parameters for row in rows),
        flops=sum(known) if known else None,
        failed=any(row.failed for row in rows),
    )
