"""A benchmark as the JSON document ``rescli.bench/1``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rescli.render.bench_warnings import sentence
from rescli.render.document import document

if TYPE_CHECKING:
    from rescli.bench.result import BenchResult, BenchWarning, PassResult


def bench_json(result: BenchResult) -> str:
    """Write a benchmark as JSON, times in seconds.

    Args:
        result: What was found.
    """
    return document(
        "rescli.bench/1",
        environment=result.environment,
        results=[_row(row) for row in result.results],
        comparisons=[],
        interrupted=result.interrupted,
    )


def _row(row: PassResult) -> dict[str, object]:
    found = row.statistics
    return {
        "name": row.name,
        "target": row.target,
        "variant": row.variant,
        "device": row.device,
        "parallel": row.parallel,
        "dtype": row.dtype,
        "batch_size": row.batch_size,
        "pass": row.pass_name,
        "samples": len(row.samples_s),
        "iterations": row.iterations,
        "median_s": found.median_s if found else None,
        "iqr_s": found.iqr_s if found else None,
        "min_s": found.min_s if found else None,
        "ci95_s": found.ci95_s if found else None,
        "p95_s": found.p95_s if found else None,
        "wall_median_s": row.wall_median_s,
        "throughput_per_s": row.throughput_per_s,
        "first_call_s": row.first_call_s,
        "peak_memory_bytes": row.peak_memory_bytes,
        "retained_bytes": row.retained_bytes,
        "flops": row.flops,
        "flops_per_s": row.flops_per_s,
        "warnings": [_warning(warning) for warning in row.warnings],
    }


def _warning(warning: BenchWarning) -> dict[str, object]:
    words = sentence(warning)
    return {
        "code": warning.code,
        "message": words.message,
        "hint": words.hint,
        "facts": dict(warning.facts),
    }
