"""A benchmark as a picture: where all samples lie, or how the time grows with the batch.

The only format that needs more than the standard library: matplotlib, of the extra ``plot``. It is imported when a
picture is drawn, and through its object interface, so that no window system and no global state take part.
"""

from __future__ import annotations

import importlib
import io
import random
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rescli.render.bench_groups import groups_of, how, median_text
from rescli.units import format_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rescli.bench.result import BenchResult, PassResult

PLOT_FORMATS = ("png", "svg", "pdf")
_COLORS: Mapping[str, str] = {
    "block": "#1f77b4",
    "plain": "#ff7f0e",
    "versus": "#2ca02c",
    "single": "#9467bd",
}
_MARKERS: Mapping[str, str] = {"inference": "o", "forward": "s", "backward": "^", "step": "D"}
_DPI = 150
_WIDTH_IN = 9.0
_ROW_IN, _AROUND_ROWS_IN, _SWEEP_IN = 0.42, 1.15, 4.2
# Samples further above the median than this many quartile distances stand at the edge of the picture.
_FAR = 6.0
# Room on the right for how many these are, as a share of the axis.
_MARGIN = 0.05
# Where the axis of times has a mark, in each power of ten.
_MARKS = (1, 2, 5)


def bench_plot(result: BenchResult, file_format: str) -> bytes:
    """Draw a benchmark.

    A block at one batch size is drawn as all of its samples, row by row, in multiples of the block's own median of
    that pass, with the median and its 95% interval; a block at several sizes as its medians over the size.

    Args:
        result: What was found.
        file_format: One of ``PLOT_FORMATS``.

    Returns:
        The content of the file.

    Raises:
        ImportError: matplotlib is not installed.
    """
    matplotlib: Any = importlib.import_module("matplotlib")
    figure_module: Any = importlib.import_module("matplotlib.figure")
    panels = _panels(result)
    heights = [_SWEEP_IN if _is_sweep(rows) else _AROUND_ROWS_IN + _ROW_IN * len(rows) for rows in panels]
    figure = figure_module.Figure(figsize=(_WIDTH_IN, sum(heights) or _AROUND_ROWS_IN), layout="constrained")
    if not panels:
        figure.text(0.5, 0.5, "Nothing was measured.", ha="center", va="center")
    else:
        axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)
        for place, (rows, (axis,)) in enumerate(zip(panels, axes, strict=True)):
            if _is_sweep(rows):
                _draw_sweep(axis, rows)
            else:
                _draw_samples(axis, rows, seed=place)
    content = io.BytesIO()
    # Without the date of today and random names the same result gives the same file.
    metadata = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[file_format]
    with matplotlib.rc_context({"svg.hashsalt": "rescli"}):
        figure.savefig(content, format=file_format, dpi=_DPI, metadata=metadata)
    return content.getvalue()


def _panels(result: BenchResult) -> list[list[PassResult]]:
    """Give the rows that have samples, those of one block together."""
    rows = [line.row for group in groups_of(result) for line in group if line.row.statistics is not None]
    # Another TARGET of --versus stands beside the block that it is compared with.
    owners: list[str] = []
    for row in rows:
        owners.append(row.target if row.variant != "versus" or not owners else owners[-1])
    paired = groupby(zip(owners, rows, strict=True), key=lambda pair: pair[0])
    return [[row for _, row in group] for _, group in paired]


def _is_sweep(rows: Sequence[PassResult]) -> bool:
    return len({row.batch_size for row in rows}) > 1


def _draw_samples(axis: Any, rows: Sequence[PassResult], *, seed: int) -> None:  # noqa: ANN401 - matplotlib's own
    bases = {row.pass_name: _median_s(row) for row in reversed(rows)}
    bases |= {row.pass_name: _median_s(row) for row in rows if row.variant == "block"}
    # Where a point stands above or below its row means nothing.
    jitter = random.Random(seed)  # noqa: S311
    edge = max(_far(row) / bases[row.pass_name] for row in rows)
    for place, row in enumerate(rows):
        base, color = bases[row.pass_name], _COLORS[row.variant]
        near = [sample / base for sample in row.samples_s if sample / base <= edge]
        beyond = len(row.samples_s) - len(near)
        heights = [place + jitter.uniform(-0.25, 0.25) for _ in near]
        axis.plot(near, heights, ".", color=color, alpha=0.25, markersize=4, rasterized=True)
        if beyond:
            axis.plot(edge, place, ">", color=color, markersize=6)
            axis.annotate(f"{beyond} more", (edge, place), (6, -3), textcoords="offset points", fontsize=7)
        _draw_median(axis, row, place, base)
    axis.set_yticks(range(len(rows)), [_row_label(row) for row in rows])
    axis.set_ylim(len(rows) - 0.4, -0.6)
    low, high = axis.get_xlim()
    axis.set_xlim(low, high + _MARGIN * (high - low))
    axis.set_xlabel("time of a call, in medians of the block's pass")
    axis.grid(visible=True, axis="x", alpha=0.3)
    _draw_title(axis, rows)


def _draw_median(axis: Any, row: PassResult, place: int, base: float) -> None:  # noqa: ANN401 - matplotlib's own
    median = _median_s(row) / base
    low, high = (end / base for end in _interval_s(row))
    if low < high:
        axis.plot(
            [low, high], [place, place], "-", color="black", linewidth=4, solid_capstyle="butt", alpha=0.6
        )
    axis.plot([median, median], [place - 0.32, place + 0.32], "-", color="black", linewidth=1.2)


def _draw_sweep(axis: Any, rows: Sequence[PassResult]) -> None:  # noqa: ANN401 - matplotlib's own
    ticker: Any = importlib.import_module("matplotlib.ticker")
    lines = dict.fromkeys((row.variant, row.pass_name) for row in rows)
    forms = {row.variant for row in rows}
    for variant, name in lines:
        points = [row for row in rows if (row.variant, row.pass_name) == (variant, name)]
        medians = [_median_s(row) for row in points]
        ends = [
            (row.statistics.ci95_s if row.statistics else None) or (m, m)
            for row, m in zip(points, medians, strict=True)
        ]
        below = [m - low for m, (low, _) in zip(medians, ends, strict=True)]
        above = [high - m for m, (_, high) in zip(medians, ends, strict=True)]
        axis.errorbar(
            [row.batch_size for row in points],
            medians,
            yerr=[below, above],
            color=_COLORS[variant],
            marker=_MARKERS[name],
            linestyle="-" if variant == "block" else "--",
            capsize=3,
            label=f"{name}, {variant}" if len(forms) > 1 else name,
        )
    sizes = sorted({row.batch_size for row in rows})
    axis.set_xscale("log", base=2)
    axis.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axis.set_yscale("log")
    axis.yaxis.set_major_locator(ticker.LogLocator(subs=_MARKS))
    axis.yaxis.set_major_formatter(ticker.FuncFormatter(lambda seconds, _place: _round_text(seconds)))
    axis.yaxis.set_minor_formatter(ticker.NullFormatter())
    axis.set_xlabel("items in the batch")
    axis.set_ylabel("median time of a call")
    axis.grid(visible=True, alpha=0.3)
    axis.legend(fontsize=8)
    _draw_title(axis, rows)


def _draw_title(axis: Any, rows: Sequence[PassResult]) -> None:  # noqa: ANN401 - matplotlib's own
    facts = how(rows[0])
    if _is_sweep(rows):
        facts = facts.rpartition(", batch")[0]
    others = dict.fromkeys(row.target for row in rows if row.variant == "versus")
    against = f"\nversus {', '.join(others)}" if others else ""
    axis.set_title(f"{rows[0].target}{against}\n{facts}", loc="left", fontsize=10)


def _row_label(row: PassResult) -> str:
    form = "" if row.variant == "block" else f", {row.variant}"
    return f"{row.pass_name}{form}\n{median_text(row, '')}"


def _round_text(seconds: float) -> str:
    """Write a round time without the digits that say that it is measured: ``20 ms``."""
    number, _, unit = format_seconds(seconds).partition(" ")
    return f"{float(number.replace(',', '')):g} {unit}"


def _median_s(row: PassResult) -> float:
    return row.statistics.median_s if row.statistics is not None else 0.0


def _interval_s(row: PassResult) -> tuple[float, float]:
    interval = row.statistics.ci95_s if row.statistics is not None else None
    return interval or (_median_s(row), _median_s(row))


def _far(row: PassResult) -> float:
    assert row.statistics is not None  # noqa: S101 - only such rows are drawn
    far = row.statistics.median_s + _FAR * row.statistics.iqr_s
    return min(max(row.samples_s), far) if row.statistics.iqr_s else max(row.samples_s)
