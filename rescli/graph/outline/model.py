"""The lines of a listing, and the skips beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rescli.graph.model import BlockGraph, Diagnostic, EdgeFact, LayerFact


@dataclass(frozen=True, slots=True)
class Inside:
    """What is summed up in a row instead of standing below it.

    Args:
        rows: How many rows.
        skips: How many skips begin and end among them.
        crossing: How many begin among them and end elsewhere, or the other way round.
    """

    rows: int = 0
    skips: int = 0
    crossing: int = 0


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a listing.

    Args:
        row: The row, its figures with those of what is summed up in it; None for the heading of a group.
        level: How far it is indented.
        repeats: How many equal neighbours it and what stands below it stand for.
        types: For the heading of a group, the classes of the neighbours that repeat together.
        is_lower_bound: Whether some of what is summed up in ``row.flops`` is not counted.
        inside: What is summed up in the row; None if nothing is.
    """

    row: LayerFact | None
    level: int
    repeats: int = 1
    types: tuple[str, ...] = ()
    is_lower_bound: bool = False
    inside: Inside | None = None


@dataclass(frozen=True, slots=True)
class Skip:
    """A skip that is listed.

    Args:
        edge: The skip; of equal ones in a folded group the first.
        arc: The lines that it leads from and to; None if one of them is summed up in another.
        repeats: How many equal ones it stands for.
    """

    edge: EdgeFact
    arc: tuple[int, int] | None
    repeats: int


@dataclass(frozen=True, slots=True)
class Remark:
    """A diagnostic, once for all places where it says the same.

    Args:
        diagnostic: The first of them.
        more_paths: Where the others are.
    """

    diagnostic: Diagnostic
    more_paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outline:
    """What is shown of a block.

    Args:
        lines: The lines of the listing, in order.
        skips: The skips, in the order of their Applies.
        hidden_skips: How many skips are in no line and not in ``skips``, as both ends are summed up in one row.
        remarks: The diagnostics, the gravest first.
    """

    lines: tuple[Line, ...]
    skips: tuple[Skip, ...]
    hidden_skips: int
    remarks: tuple[Remark, ...]

    @property
    def is_folded(self) -> bool:
        """Whether a line stands for several neighbours."""
        return any(line.repeats > 1 for line in self.lines)


@dataclass(frozen=True, slots=True)
class ShownBlock:
    """A block as a reader gets it.

    Args:
        graph: The facts.
        outline: What is listed of them.
        appendix: A text to put below, as a further table; none if empty.
    """

    graph: BlockGraph
    outline: Outline
    appendix: str = ""
