"""A benchmark as the JSON document ``rescli.bench/1``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rescli.render.bench_warnings import sentence
from rescli.render.document import document

if TYPE_CHECKING:
    from rescli.bench.result import BenchResult, BenchWarning, Comparison, PassResult


def bench_json(result: BenchResult, *, with_samples: bool = False) -> str:
    """Write a benchmark as JSON, times in seconds.

    Args:
        result: What was found.
        with_samples: Whether every single sample is written, as a baseline needs it.
    """
    return document(
        "rescli.bench/1",
        environment=result.environment,
        results=[
            _row(row) | ({"samples_s": row.samples_s} if with_samples else {}) for row in result.results
        ],
        comparisons=[_comparison(one) for one in result.comparisons],
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
        "workers": row.workers,
        "pass": row.pass_name,
        "autocast_dtype": row.autocast_dtype,
        "compiled": row.compiled,
        "channels_last": row.channels_last,
        "commit": row.commit,
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
        "compile_s": row.compile_s,
        "peak_memory_bytes": row.peak_memory_bytes,
        "retained_bytes": row.retained_bytes,
        "flops": row.flops,
        "flops_per_s": row.flops_per_s,
        "flops_share": row.flops_share,
        "warnings": [_warning(warning) for warning in row.warnings],
    }


def _comparison(found: Comparison) -> dict[str, object]:
    return {
        "a": found.a,
        "b": found.b,
        "kind": found.kind,
        "name": found.name,
        "variant": found.variant,
        "device": found.device,
        "dtype": found.dtype,
        "pass": found.pass_name,
        "batch_size": found.batch_size,
        "ratio": found.ratio,
        "ci95": found.ci95,
        "verdict": found.verdict,
        "margin": found.margin,
        "paired": found.paired,
        "pairs": found.pairs,
        "workers": found.workers,
        "efficiency": found.efficiency,
    }


def _warning(warning: BenchWarning) -> dict[str, object]:
    words = sentence(warning)
    return {
        "code": warning.code,
        "message": words.message,
        "hint": words.hint,
        "facts": dict(warning.facts),
    }
