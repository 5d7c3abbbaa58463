"""A benchmark as comma-separated values: a line a row, for spreadsheets and data frames."""

from __future__ import annotations

import csv
import io
import math
from typing import TYPE_CHECKING

from rescli.render.bench_groups import groups_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rescli.bench.result import BenchResult, Comparison
    from rescli.render.bench_groups import Line

_PLAIN = (
    "name", "target", "variant", "device", "parallel", "dtype", "autocast_dtype", "compiled", "channels_last",
    "batch_size", "workers",
)  # fmt: skip
_MEASURED = (
    "throughput_per_s", "first_call_s", "compile_s", "peak_memory_bytes", "retained_bytes", "flops", "flops_per_s",
    "flops_share",
)  # fmt: skip


def bench_csv(result: BenchResult) -> str:
    """Write a benchmark as CSV, in SI units, with the names of the JSON document; what is unknown is empty.

    Where it was compared, a row ends with the comparison of itself (b) to the block or to the baseline (a).

    Args:
        result: What was found.
    """
    records = [_record(line) for group in groups_of(result) for line in group]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(records[0]) if records else list(_PLAIN), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def _record(line: Line) -> Mapping[str, object]:
    row, found = line.row, line.row.statistics
    interval = found.ci95_s if found else None
    return {
        **{name: _cell(getattr(row, name)) for name in _PLAIN},
        "pass": row.pass_name,
        "samples": len(row.samples_s),
        "median_s": _cell(found.median_s if found else None),
        "iqr_s": _cell(found.iqr_s if found else None),
        "min_s": _cell(found.min_s if found else None),
        "ci95_low_s": _cell(interval[0] if interval else None),
        "ci95_high_s": _cell(interval[1] if interval else None),
        "p95_s": _cell(found.p95_s if found else None),
        **{name: _cell(getattr(row, name)) for name in _MEASURED},
        **_compared("versus", line.versus),
        **_compared("baseline", line.baseline),
        **_scaled(line.scaling),
        "warnings": " ".join(warning.code for warning in row.warnings),
    }


def _compared(kind: str, found: Comparison | None) -> dict[str, object]:
    interval = found.ci95 if found else None
    return {
        f"{kind}_ratio": _cell(found.ratio if found else None),
        f"{kind}_ci95_low": _cell(interval[0] if interval else None),
        f"{kind}_ci95_high": _cell(interval[1] if interval else None),
        f"{kind}_verdict": found.verdict if found else "",
    }


def _scaled(found: Comparison | None) -> dict[str, object]:
    interval = found.ci95 if found else None
    return {
        "speed_up": _cell(found.ratio if found else None),
        "speed_up_ci95_low": _cell(interval[0] if interval else None),
        "speed_up_ci95_high": _cell(interval[1] if interval else None),
        "efficiency": _cell(found.efficiency if found else None),
    }


def _cell(value: object) -> object:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    return str(value).lower() if isinstance(value, bool) else value
