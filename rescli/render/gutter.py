"""The skips drawn as arcs beside a listing of layers, one line of characters a row.

Each Record that is read is one net: its arc leaves at the Record's row, runs down in a lane of its own and
ends at the last Apply that reads it; Applies on the way branch off it. Short arcs take the inner lanes, and no
two arcs share a lane at the same row. A horizontal stroke passes a foreign lane as a crossing, never as a joint::

     ●─╮    Record
     ○ │    Linear
     ●─┼─╮  Record
     ◆─╯ │  Apply
     ◆───╯  Apply
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Node = Literal["record", "add", "concat", "multiply", "gated", "highway", "layer", "block", "failed"]

# Above this many lanes, the empty column between lanes is left out.
_ROOMY_LANES = 8


@dataclass(frozen=True, slots=True)
class Charset:
    """The characters of the picture.

    Args:
        nodes: One for each kind of row.
        across: The stroke from a row to its lane.
        down: A lane that passes a row.
        crossing: A stroke that passes a foreign lane.
        leaves: Where an arc turns down, at its Record.
        branches: Where a stroke leaves an arc that goes on, at an Apply.
        arrives: Where an arc ends, at its last Apply.
    """

    nodes: dict[Node, str]
    across: str
    down: str
    crossing: str
    leaves: str
    branches: str
    arrives: str


UNICODE = Charset(
    nodes={
        "record": "●",
        "layer": "○",
        "block": "▾",
        "failed": "✗",
        "add": "◆",
        "concat": "◇",
        "multiply": "◈",
        "gated": "⬖",
        "highway": "⬗",
    },
    across="─",
    down="│",
    crossing="┼",
    leaves="╮",
    branches="┤",
    arrives="╯",
)
ASCII = Charset(
    nodes={
        "record": "*",
        "layer": "o",
        "block": "v",
        "failed": "x",
        "add": "#",
        "concat": "&",
        "multiply": "%",
        "gated": "~",
        "highway": "=",
    },
    across="-",
    down="|",
    crossing="+",
    leaves=".",
    branches="]",
    arrives="'",
)


@dataclass(frozen=True, slots=True)
class Net:
    """One Record's row and the rows of the Applies that read it."""

    record: int
    applies: tuple[int, ...]
    lane: int

    @property
    def last(self) -> int:
        """The row at which the arc ends."""
        return self.applies[-1]


@dataclass(frozen=True, slots=True)
class Stroke:
    """A piece of one line: some characters, and the net that they belong to.

    Args:
        text: The characters.
        net: Number of the net, for its colour; None for the row's own mark and for empty space.
    """

    text: str
    net: int | None


@dataclass(frozen=True, slots=True)
class Gutter:
    """The picture of all rows.

    Args:
        nets: The arcs, by the row of their Record.
        rows: The strokes of each row. Rows are not padded.
        below: What stands under a row that is printed in several lines: the lanes that go on.
        width: The longest row, in characters.
        left_out: How many skips have no arc, for want of lanes.
    """

    nets: tuple[Net, ...]
    rows: tuple[tuple[Stroke, ...], ...]
    below: tuple[tuple[Stroke, ...], ...]
    width: int
    left_out: int = 0


def draw_gutter(
    nodes: Sequence[Node], edges: Sequence[tuple[int, int]], charset: Charset, most_lanes: int | None = None
) -> Gutter:
    """Draw the skips beside a listing.

    Args:
        nodes: What each row is.
        edges: The skips, as the rows of Record and Apply; several may begin at one Record, none end at the
            same Apply.
        charset: What to draw with.
        most_lanes: How many arcs may run side by side; the longest of more are left out. None draws all.

    Example:
        >>> picture = draw_gutter(["record", "layer", "add"], [(0, 2)], UNICODE)
        >>> ["".join(stroke.text for stroke in row) for row in picture.rows]
        ['●─╮', '○ │', '◆─╯']
    """
    nets = assign_lanes(edges, most_lanes)
    gap = 1 if max((net.lane for net in nets), default=0) < _ROOMY_LANES else 0
    pen = _Pen(charset, gap)
    starts = {net.record: number for number, net in enumerate(nets)}
    reads = {row: number for number, net in enumerate(nets) for row in net.applies}
    active: dict[int, int] = {}
    rows, below = [], []
    for row, node in enumerate(nodes):
        own = starts.get(row, reads.get(row))
        end = charset.down
        if own is not None:
            net = nets[own]
            end = charset.leaves if row == net.record else charset.branches
            if row == net.last:
                end = charset.arrives
                del active[net.lane]
        rows.append(pen.row(charset.nodes[node], active, None if own is None else (nets[own].lane, own, end)))
        if own is not None and row != nets[own].last:
            active[nets[own].lane] = own
        below.append(pen.row(" ", active, None))
    width = max((sum(len(stroke.text) for stroke in row) for row in rows), default=0)
    left_out = len(edges) - sum(len(net.applies) for net in nets)
    return Gutter(nets=nets, rows=tuple(rows), below=tuple(below), width=width, left_out=left_out)


def assign_lanes(edges: Iterable[tuple[int, int]], most_lanes: int | None = None) -> tuple[Net, ...]:
    """Give each arc a lane: short ones inside, and never two in one lane at the same row.

    Args:
        edges: The skips, as the rows of Record and Apply.
        most_lanes: How many lanes there are; an arc that finds none is left out. None makes as many as it takes.

    Returns:
        The nets, in the order of their Records. An arc that lies within another has an inner lane.
    """
    applies: dict[int, list[int]] = {}
    for record, apply in edges:
        applies.setdefault(record, []).append(apply)
    spans = sorted(
        ((record, sorted(rows)) for record, rows in applies.items()),
        key=lambda span: (span[1][-1] - span[0], span[0]),
    )
    lanes: list[_Lane] = []
    nets = []
    for record, rows in spans:
        number = next(
            (number for number, lane in enumerate(lanes) if lane.is_free(record, rows[-1])), len(lanes)
        )
        if number == most_lanes:
            continue
        if number == len(lanes):
            lanes.append(_Lane())
        lanes[number].take(record, rows[-1])
        nets.append(Net(record=record, applies=tuple(rows), lane=number))
    return tuple(sorted(nets, key=lambda net: net.record))


class _Lane:
    """The rows that are taken in one lane, as disjoint spans in order."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def is_free(self, start: int, end: int) -> bool:
        after = bisect.bisect_right(self._starts, end)
        return after == 0 or self._ends[after - 1] < start

    def take(self, start: int, end: int) -> None:
        place = bisect.bisect_left(self._starts, start)
        self._starts.insert(place, start)
        self._ends.insert(place, end)


class _Pen:
    """Draws single rows with one set of characters."""

    def __init__(self, charset: Charset, gap: int) -> None:
        self._charset = charset
        self._gap = gap

    def row(self, node: str, active: dict[int, int], own: tuple[int, int, str] | None) -> tuple[Stroke, ...]:
        """Draw one row.

        Args:
            node: The row's mark.
            active: The net that passes in each lane, without the row's own.
            own: Lane, number and last character of the net that the row belongs to.
        """
        charset, strokes = self._charset, [Stroke(node, None)]
        own_lane = -1 if own is None else own[0]
        for lane in range(max([own_lane, *active], default=-1) + 1):
            passing = active.get(lane)
            if own is not None and lane <= own_lane:
                reach = charset.across * (1 if lane == 0 else self._gap)
                strokes.append(Stroke(reach, own[1]))
                if lane == own_lane:
                    strokes.append(Stroke(own[2], own[1]))
                elif passing is None:
                    strokes.append(Stroke(charset.across, own[1]))
                else:
                    strokes.append(Stroke(charset.crossing, passing))
            else:
                strokes.append(Stroke(" " * (1 if lane == 0 else self._gap), None))
                strokes.append(Stroke(" ", None) if passing is None else Stroke(charset.down, passing))
        return tuple(strokes)
