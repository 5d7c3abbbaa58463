"""A benchmark as Markdown, as one would paste it into a pull request."""

from __future__ import annotations

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
from rescli.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rescli.bench.result import BenchResult, Environment
    from rescli.render.bench_groups import Line

_DASH = "–"


def bench_markdown(result: BenchResult) -> str:
    """Write a benchmark as Markdown: a table for each block and batch size, then the machine.

    Args:
        result: What was found.
    """
    lines: list[str] = []
    for group in groups_of(result):
        lines += [*_section(group), ""]
    if not result.results:
        lines += ["Nothing was measured.", ""]
    if result.interrupted:
        lines += ["Interrupted: this is what was measured until then.", ""]
    lines.append(_machine(result.environment))
    return "\n".join(lines) + "\n"


def _section(group: list[Line]) -> Iterator[str]:
    rows = [line.row for line in group]
    others = dict.fromkeys(row.target for row in rows if row.target != rows[0].target)
    against = "".join(f", versus {_code(target)}" for target in others)
    yield f"**{_code(rows[0].target)}** {how(rows[0])}{against}"
    yield ""
    columns = _columns(group)
    yield _line(columns)
    yield _line([":--" if title in ("pass", "form") else "--:" for title in columns])
    for place in range(len(group)):
        yield _line([cells[place] for cells in columns.values()])
    for words, whom in said_once(rows):
        yield ""
        yield f"> {_escaped(f'{whom}{words.message}. Hint: {words.hint}.')}"


def _columns(group: list[Line]) -> dict[str, list[str]]:
    """Give the cells of each column by its title, those with nothing to say left out."""
    rows = [line.row for line in group]
    columns: dict[str, list[str]] = {"pass": [row.pass_name for row in rows]}
    if len({row.variant for row in rows}) > 1:
        columns["form"] = [row.variant for row in rows]
    columns["median"] = [median_text(row, _DASH) for row in rows]
    columns["95% interval"] = [interval_text(row, _DASH) for row in rows]
    for title, found in (
        ("× block", [line.versus for line in group]),
        ("× baseline", [line.baseline for line in group]),
    ):
        if any(found):
            columns[title] = [ratio_text(one, _DASH) if one else "" for one in found]
    if any(line.scaling for line in group):
        columns["speed-up, efficiency"] = [
            scaling_text(line.scaling, _DASH) if line.scaling else "" for line in group
        ]
    columns["items/s"] = [f"{row.throughput_per_s:,.0f}" if row.throughput_per_s else _DASH for row in rows]
    if any(row.peak_memory_bytes is not None for row in rows):
        columns["peak memory"] = [_bytes(row.peak_memory_bytes) for row in rows]
    if any(row.retained_bytes for row in rows):
        columns["kept memory"] = [_bytes(row.retained_bytes) for row in rows]
    columns["samples"] = [f"{len(row.samples_s):,}" for row in rows]
    return columns


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _bytes(count: int | None) -> str:
    return _DASH if count is None else format_bytes(count)


def _machine(environment: Environment) -> str:
    facts = [
        environment.cpu,
        *(gpu.name for gpu in environment.gpus),
        f"{environment.threads} thread{'' if environment.threads == 1 else 's'} on {environment.cores} cores",
        f"torch {environment.torch}",
        f"Python {environment.python}",
        f"rescli {environment.rescli}",
    ]
    return _escaped(", ".join(facts))


def _code(target: str) -> str:
    return f"`{target}`"


def _escaped(text: str) -> str:
    """Keep what Markdown would take for its own signs."""
    for sign in "\\`*_<>|[]":
        text = text.replace(sign, f"\\{sign}")
    return text
