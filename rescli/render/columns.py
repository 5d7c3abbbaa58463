"""Rows in aligned columns that fit a width where they can, and break between words where they cannot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rescli.render.style import visible, wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

GAP = "  "
_WIDE = frozenset("WF")


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Args:
        title: What stands above it.
        is_number: Whether it is aligned to the right.
        yields: Its turn to be broken into several lines if the table is too wide; 0 if it never is.
    """

    title: str
    is_number: bool = False
    yields: int = 0


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns with the widths they got.

    Args:
        columns: The columns.
        widths: Their widths, in characters.
    """

    columns: tuple[Column, ...]
    widths: tuple[int, ...]

    @property
    def width(self) -> int:
        """The width of a whole row, with the gaps."""
        return sum(self.widths) + len(GAP) * (len(self.widths) - 1)

    def lines(self, cells: Sequence[str]) -> list[list[str]]:
        """Break one row into lines of padded cells.

        Args:
            cells: The texts, one for each column.
        """
        broken = [
            [cell.replace("\u00a0", " ")]
            if columns_of(cell) <= width
            else wrapped(cell, width, _indent(cell))
            for cell, width in zip(cells, self.widths, strict=True)
        ]
        height = max(map(len, broken))
        return [
            [
                _padded(part[line] if line < len(part) else "", width, column)
                for part, width, column in zip(broken, self.widths, self.columns, strict=True)
            ]
            for line in range(height)
        ]


def lay_out(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> Layout:
    """Find widths for columns.

    Args:
        columns: The columns.
        rows: The texts of all rows.
        width: What the whole row may take, with the gaps. A table that cannot get that narrow stays wider.
    """
    widths = [
        max([len(column.title), *(columns_of(row[place]) for row in rows)])
        for place, column in enumerate(columns)
    ]
    excess = sum(widths) + len(GAP) * (len(columns) - 1) - width
    turns = sorted((column.yields, place) for place, column in enumerate(columns) if column.yields)
    for _, place in turns:
        if excess > 0:
            title = max(map(len, columns[place].title.split()))
            narrow = max([title, *(_longest_piece(row[place]) for row in rows)])
            given = max(min(excess, widths[place] - narrow), 0)
            widths[place] -= given
            excess -= given
    return Layout(tuple(columns), tuple(widths))


def table(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int, indent: str = ""
) -> list[str]:
    """Write a whole table, titles first.

    Args:
        columns: The columns.
        rows: The texts of all rows.
        width: What a line may take.
        indent: What stands before each line.
    """
    shown = [[visible(cell) for cell in row] for row in rows]
    layout = lay_out(columns, shown, width - len(indent))
    titles = [column.title for column in columns]
    return [(indent + GAP.join(line)).rstrip() for cells in (titles, *shown) for line in layout.lines(cells)]


def columns_of(text: str) -> int:
    """Count the columns that a text takes on a terminal.

    Args:
        text: One line without escape sequences.

    Example:
        >>> columns_of("skip"), columns_of("跳过")
        (4, 4)
    """
    # Nothing below the combining marks, and none of the arrows and shapes of pictures, is wider than one column.
    if text.isascii() or all(mark < "\u0300" or "\u2000" <= mark < "\u2e80" for mark in text):
        return len(text)
    import unicodedata  # noqa: PLC0415 - a table of a megabyte that few need

    return sum(
        0 if unicodedata.combining(mark) else 2 if unicodedata.east_asian_width(mark) in _WIDE else 1
        for mark in text
    )


def _padded(text: str, width: int, column: Column) -> str:
    # str.ljust counts characters; what is written in Chinese takes two columns each.
    space = " " * (width - columns_of(text))
    return space + text if column.is_number else text + space


def _indent(cell: str) -> str:
    """Indent what is broken off two more than the cell's own beginning."""
    return " " * (len(cell) - len(cell.lstrip(" ")) + 2)


def _longest_piece(cell: str) -> int:
    pieces = cell.split(" ")
    return len(_indent(cell)) + max(map(columns_of, pieces))
