"""A benchmark as a table a block, for a person at a terminal."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rescli.render.bench_groups import (
    groups_of,
    how,
    interval_text,
    median_text,
    ratio_text,
    scaling_text,
)
from rescli.render.bench_warnings import said_once
from rescli.units import format_bytes, format_count, format_flops, format_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rescli.bench.result import BenchResult, Comparison, Environment, PassResult
    from rescli.render.bench_groups import Line

_INDENT = "  "
_BINS = 8
_BARS = " ▁▂▃▄▅▆▇█"
_ASCII_BARS = " .:-=+*#@"


@dataclass(frozen=True, slots=True)
class Style:
    """What the page can show.

    Args:
        width: Columns; what cannot be folded to it is not cut.
        ascii_only: Whether only ASCII characters can be shown.
        color: Whether escape sequences are wanted.
    """

    width: int = 80
    ascii_only: bool = False
    color: bool = False

    @property
    def dash(self) -> str:
        """What stands where there is no number, and between two of them."""
        return "-" if self.ascii_only else "–"

    def bold(self, text: str) -> str:
        """Put weight on a text."""
        return f"\x1b[1m{text}\x1b[0m" if self.color else text

    def alarming(self, text: str) -> str:
        """Draw the eye to a text."""
        return f"\x1b[33m{text}\x1b[0m" if self.color else text


@dataclass(frozen=True, slots=True)
class _Column:
    """One column of the table.

    Args:
        header: What stands above it.
        cell: Gives the text of a row.
        left: Whether it is aligned to the left.
        keep: The columns with the lowest number go first where the page is too narrow.
    """

    header: str
    cell: Callable[[Line], str]
    left: bool = False
    keep: int = 9


def bench_text(result: BenchResult, *, width: int = 80, ascii_only: bool = False, color: bool = False) -> str:
    """Write a benchmark as text.

    Args:
        result: What was found.
        width: Columns to lay it out for.
        ascii_only: Whether only ASCII characters can be shown.
        color: Whether escape sequences are wanted.
    """
    style = Style(width, ascii_only, color)
    lines = list(_head(result.environment, style))
    for group in groups_of(result):
        lines += ["", *_block(group, style)]
    if not result.results:
        lines += ["", "Nothing was measured."]
    if result.interrupted:
        lines += ["", "Interrupted: this is what was measured until then."]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _head(environment: Environment, style: Style) -> Iterator[str]:
    threads = f"{environment.threads} thread{'' if environment.threads == 1 else 's'}"
    cores = f"{environment.cores} core{'' if environment.cores == 1 else 's'}"
    facts = [environment.cpu, f"{threads} on {cores}", f"torch {environment.torch}"]
    facts += [gpu.name for gpu in environment.gpus]
    yield from textwrap.wrap(", ".join(facts), style.width, break_long_words=False)


def _block(lines: list[Line], style: Style) -> Iterator[str]:
    first = lines[0].row
    others = dict.fromkeys(line.row.target for line in lines if line.row.target != first.target)
    against = f", versus {', '.join(others)}" if others else ""
    title, facts = first.target, f"{how(first)}{against}"
    if len(title) + len(facts) + 2 <= style.width:
        yield f"{style.bold(title)}  {facts}"
    else:
        yield style.bold(title)
        yield from _folded(facts, style)
    yield from _table(lines, _columns(lines, style), style)
    yield from _calls("first call", lines, lambda row: row.first_call_s, style)
    yield from _calls("of that, compiling", lines, lambda row: row.compile_s, style)
    yield from _warnings([line.row for line in lines], style)


def _calls(
    title: str, lines: list[Line], seconds: Callable[[PassResult], float | None], style: Style
) -> Iterator[str]:
    """Write a time of each pass behind one another, a paragraph for each variant."""
    for variant in dict.fromkeys(line.row.variant for line in lines):
        times = [
            f"{line.row.pass_name} {format_seconds(found, ascii_only=style.ascii_only)}"
            for line in lines
            if line.row.variant == variant and (found := seconds(line.row)) is not None
        ]
        if times:
            whose = "" if variant == "block" else f" ({variant})"
            yield from _folded(f"{title}{whose}: {', '.join(times)}", style)


def _columns(lines: list[Line], style: Style) -> list[_Column]:
    """Choose the columns that have something to say."""
    rows = [line.row for line in lines]
    times = "x" if style.ascii_only else "×"
    columns = [_Column("pass", lambda line: line.row.pass_name, left=True)]
    if len({row.variant for row in rows}) > 1:
        columns.append(_Column("form", lambda line: line.row.variant, left=True))
    columns += [
        _Column("median", lambda line: _median(line.row, style)),
        _Column("95% interval", lambda line: _interval(line.row, style), keep=8),
    ]
    if any(line.versus for line in lines):
        columns.append(_Column(f"{times} block", lambda line: _ratio(line.versus, style), left=True))
    if any(line.baseline for line in lines):
        columns.append(_Column(f"{times} baseline", lambda line: _ratio(line.baseline, style), left=True))
    if any(line.scaling for line in lines):
        columns.append(
            _Column("speed-up, efficiency", lambda line: _speed_up(line.scaling, style), left=True)
        )
    columns.append(_Column("items/s", lambda line: _throughput(line.row, style), keep=6))
    if any(row.flops_per_s is not None for row in rows):
        columns.append(_Column("FLOP/s", lambda line: _flop_rate(line.row, style), keep=3))
    if any(row.flops_share is not None for row in rows):
        columns.append(_Column("of matmul", lambda line: _share(line.row, style), keep=2))
    if any(row.peak_memory_bytes is not None for row in rows):
        columns.append(_Column("peak", lambda line: _bytes(line.row.peak_memory_bytes, style), keep=5))
    if any(row.retained_bytes for row in rows):
        columns.append(_Column("kept", lambda line: _bytes(line.row.retained_bytes, style), keep=7))
    return [
        *columns,
        _Column("samples", lambda line: format_count(len(line.row.samples_s)), keep=1),
        _Column("spread", lambda line: distribution(line.row.samples_s, style.ascii_only), left=True, keep=4),
    ]


def _table(rows: list[Line], columns: list[_Column], style: Style) -> Iterator[str]:
    cells = {column.header: [column.header, *map(column.cell, rows)] for column in columns}
    widths = {header: max(map(len, texts)) for header, texts in cells.items()}
    shown = list(columns)
    while sum(widths[column.header] + len(_INDENT) for column in shown) > style.width:
        weakest = min(shown, key=lambda column: column.keep)
        if weakest.keep == 9:
            break
        shown.remove(weakest)
    for place in range(len(rows) + 1):
        line = [
            f"{cells[column.header][place]:{'<' if column.left else '>'}{widths[column.header]}}"
            for column in shown
        ]
        yield _INDENT + _INDENT.join(line)


def _median(row: PassResult, style: Style) -> str:
    return median_text(row, style.dash, ascii_only=style.ascii_only)


def _interval(row: PassResult, style: Style) -> str:
    return interval_text(row, style.dash)


def _throughput(row: PassResult, style: Style) -> str:
    rate = row.throughput_per_s
    if rate is None:
        return style.dash
    return format_count(round(rate)) if rate >= 100 else f"{rate:.3g}"


def _flop_rate(row: PassResult, style: Style) -> str:
    # The header has the rest of the unit.
    rate = row.flops_per_s
    return style.dash if rate is None else format_flops(rate).removesuffix("FLOP").rstrip()


def _share(row: PassResult, style: Style) -> str:
    return style.dash if row.flops_share is None else f"{100 * row.flops_share:.3g}%"


def _bytes(count: int | None, style: Style) -> str:
    return style.dash if count is None else format_bytes(count)


def _ratio(found: Comparison | None, style: Style) -> str:
    return "" if found is None else ratio_text(found, style.dash)


def _speed_up(found: Comparison | None, style: Style) -> str:
    return "" if found is None else scaling_text(found, style.dash)


def distribution(samples: Sequence[float], ascii_only: bool = False) -> str:
    """Draw where the samples lie, from the fastest on the left to the slowest on the right.

    Args:
        samples: Times. Those further out than five quartile distances above the median share the last bin.
        ascii_only: Whether only ASCII characters can be shown.

    Example:
        >>> distribution([1.0, 1.0, 1.0, 2.0])
        '█      ▃'
    """
    if len(samples) < 2:
        return ""
    ordered = sorted(samples)
    low, middle = ordered[0], ordered[len(ordered) // 2]
    spread = ordered[len(ordered) * 3 // 4] - ordered[len(ordered) // 4]
    high = min(ordered[-1], middle + 5 * spread) if spread else ordered[-1]
    counts = [0] * _BINS
    for value in ordered:
        place = int((value - low) / (high - low) * _BINS) if high > low else 0
        counts[min(place, _BINS - 1)] += 1
    bars = _ASCII_BARS if ascii_only else _BARS
    # What is not empty is seen, however little it is.
    return "".join(bars[-(-count * (len(bars) - 1) // max(counts))] for count in counts)


def _warnings(rows: list[PassResult], style: Style) -> Iterator[str]:
    """Write each sentence once, with the rows it holds for."""
    for words, whom in said_once(rows):
        text = f"! {whom}{words.message}. Hint: {words.hint}."
        if style.ascii_only:
            text = text.replace("µs", "us").encode("ascii", "backslashreplace").decode()
        first, *rest = _folded(text, style, hanging=True)
        yield style.alarming(first)
        yield from map(style.alarming, rest)


def _folded(text: str, style: Style, *, hanging: bool = False) -> list[str]:
    return textwrap.wrap(
        text,
        style.width,
        initial_indent=_INDENT,
        subsequent_indent=_INDENT * (2 if hanging else 1),
        break_long_words=False,
        break_on_hyphens=False,
    )
