"""The rows of a benchmark as they are read: by block and batch size, with what each row is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rescli.bench.result import PASSES
from rescli.units import format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rescli.bench.result import BenchResult, Comparison, PassResult

_UNITS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}


@dataclass(frozen=True, slots=True)
class Line:
    """A row with its comparisons.

    Args:
        row: The row.
        versus: How it compares with the block, if it is another variant and was compared.
        baseline: How it compares with a saved run.
        scaling: How it compares with one device in one process, if it is the block that is spread over several.
    """

    row: PassResult
    versus: Comparison | None = None
    baseline: Comparison | None = None
    scaling: Comparison | None = None


def groups_of(result: BenchResult) -> Iterator[list[Line]]:
    """Give the rows of one block at one batch size after the other, variants of a pass next to each other.

    Args:
        result: What was found.
    """
    group: list[PassResult] = []
    for row in result.results:
        if group and not _belongs(row, group):
            yield _lines(group, result.comparisons)
            group = []
        group.append(row)
    if group:
        yield _lines(group, result.comparisons)


def _belongs(row: PassResult, group: list[PassResult]) -> bool:
    first = group[0]
    if row.variant != first.variant:
        return True
    same_case = (row.target, row.name, row.batch_size) == (first.target, first.name, first.batch_size)
    return same_case and all(row.pass_name != other.pass_name for other in group)


def _lines(rows: list[PassResult], comparisons: Sequence[Comparison]) -> list[Line]:
    # Stable: within a pass the block stands first.
    ordered = sorted(rows, key=lambda row: PASSES.index(row.pass_name))
    return [
        Line(
            row,
            _comparison("versus", row, comparisons),
            _comparison("baseline", row, comparisons),
            _comparison("scaling", row, comparisons),
        )
        for row in ordered
    ]


def _comparison(kind: str, row: PassResult, comparisons: Sequence[Comparison]) -> Comparison | None:
    for one in comparisons:
        # What is spread over devices is the a of its comparison, and everywhere else a row is the b.
        variant = "block" if kind == "scaling" else one.variant
        if (
            (one.kind, variant, one.pass_name, one.dtype, one.device)
            == (kind, row.variant, row.pass_name, row.dtype, row.device)
            and row.target in (one.a, one.b)
            and one.batch_size == row.batch_size
        ):
            return one
    return None


def how(row: PassResult) -> str:
    """Say how a row was run: ``cpu, float32, autocast bfloat16, batch 8``.

    Args:
        row: Any row; those of a group ran alike.
    """
    facts = [
        _where(row),
        row.dtype,
        *([f"autocast {row.autocast_dtype}"] if row.autocast_dtype else []),
        *(["compiled"] if row.compiled else []),
        *(["channels last"] if row.channels_last else []),
        f"batch {row.batch_size:,}",
    ]
    return ", ".join(facts)


def _where(row: PassResult) -> str:
    if row.parallel == "ddp":
        return f"DDP in {row.workers} process{'' if row.workers == 1 else 'es'} on {row.device}"
    return f"DataParallel on {row.device}" if row.parallel == "dp" else row.device


def median_text(row: PassResult, dash: str, *, ascii_only: bool = False) -> str:
    """Write the median with four digits: ``23.47 µs``.

    Args:
        row: A row.
        dash: What stands where there is none.
        ascii_only: Whether microseconds must be written ``us``.
    """
    if row.statistics is None:
        return dash
    number, unit = _in_unit(row.statistics.median_s, row.statistics.median_s)
    return f"{number} {'us' if ascii_only and unit == 'µs' else unit}"


def interval_text(row: PassResult, dash: str) -> str:
    """Write the interval in the unit of the median, so that they can be compared at a glance: ``23.45–23.49``.

    Args:
        row: A row.
        dash: What stands between the ends, and where there is no interval.
    """
    if row.statistics is None or row.statistics.ci95_s is None:
        return dash
    low, high = (_in_unit(end, row.statistics.median_s)[0] for end in row.statistics.ci95_s)
    return f"{low}{dash}{high}"


def _in_unit(seconds: float, scale_s: float) -> tuple[str, str]:
    """Write a time with four digits in the unit that suits another one."""
    unit = format_seconds(scale_s).rpartition(" ")[2]
    whole_digits = len(str(int(scale_s / _UNITS[unit])))
    return f"{seconds / _UNITS[unit]:,.{max(0, 4 - whole_digits)}f}", unit


def ratio_text(found: Comparison, dash: str) -> str:
    """Write a ratio with its interval and the verdict: ``0.812 (0.805–0.820) faster``.

    Args:
        found: A comparison.
        dash: What stands between the ends of an interval.
    """
    return f"{_ratio(found, dash)} {found.verdict}"


def scaling_text(found: Comparison, dash: str) -> str:
    """Write a speed-up with its interval, and the share of it that each device could have given: ``1.820 (...), 91%``.

    Args:
        found: A comparison with one device.
        dash: What stands between the ends of an interval.
    """
    efficiency = "" if found.efficiency is None else f", {found.efficiency:.0%}"
    return f"{_ratio(found, dash)}{efficiency}"


def _ratio(found: Comparison, dash: str) -> str:
    decimals = max(0, 4 - len(str(int(found.ratio))))
    interval = ""
    if found.ci95 is not None:
        low, high = found.ci95
        interval = f" ({low:.{decimals}f}{dash}{high:.{decimals}f})"
    return f"{found.ratio:.{decimals}f}{interval}"
