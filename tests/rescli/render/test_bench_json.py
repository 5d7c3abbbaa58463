from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from rescli.bench.result import BenchResult, BenchWarning
from rescli.render.bench_json import bench_json
from tests.rescli.render.test_bench_text import ENVIRONMENT, FOUR, nothing, row

FIELDS = {
    "name", "target", "variant", "device", "parallel", "dtype", "batch_size", "pass", "samples", "median_s",
    "iqr_s", "min_s", "ci95_s", "p95_s", "throughput_per_s", "first_call_s", "peak_memory_bytes",
    "retained_bytes", "flops", "flops_per_s", "warnings",
}  # fmt: skip


def written(result: BenchResult) -> Any:  # noqa: ANN401 - JSON is what it is
    def refuse(constant: str) -> float:
        raise AssertionError(constant)

    return json.loads(bench_json(result), parse_constant=refuse)


def test_the_document_has_the_fields_of_its_schema() -> None:
    found = written(FOUR)
    assert found["schema"] == "rescli.bench/1"
    assert found["comparisons"] == []
    assert found["interrupted"] is False
    assert found["environment"]["threads"] == 2
    assert [result.keys() >= FIELDS for result in found["results"]] == [True] * 4
    assert [result["pass"] for result in found["results"]] == ["inference", "forward", "backward", "step"]


def test_times_are_plain_seconds() -> None:
    (found,) = written(BenchResult(ENVIRONMENT, (row("inference", 2e-3),)))["results"]
    assert found["samples"] == 60
    assert found["median_s"] == pytest.approx(2e-3, rel=0.01)
    assert found["ci95_s"][0] <= found["median_s"] <= found["ci95_s"][1]
    assert found["throughput_per_s"] == pytest.approx(8 / found["median_s"])


def test_what_is_unknown_is_null() -> None:
    no_time = nothing("step", BenchWarning("no-time", {"max_time_s": 1.0}))
    (found,) = written(BenchResult(ENVIRONMENT, (no_time,)))["results"]
    unknown = ("median_s", "iqr_s", "min_s", "ci95_s", "p95_s", "throughput_per_s", "peak_memory_bytes")
    assert [found[name] for name in unknown] == [None] * 7
    assert found["samples"] == 0


def test_a_number_that_json_does_not_have_is_null() -> None:
    strange = replace(row("step", 1e-3), flops_per_s=float("inf"))
    (found,) = written(BenchResult(ENVIRONMENT, (strange,)))["results"]
    assert found["flops_per_s"] is None


def test_a_warning_has_code_sentence_way_out_and_facts() -> None:
    warning = BenchWarning("oversubscribed", {"workers": 1, "threads": 16, "cores": 2})
    (found,) = written(BenchResult(ENVIRONMENT, (row("step", 1e-3, warnings=[warning]),)))["results"]
    assert found["warnings"] == [
        {
            "code": "oversubscribed",
            "message": "16 threads share 2 cores and wait for each other",
            "hint": "--threads 2",
            "facts": {"workers": 1, "threads": 16, "cores": 2},
        }
    ]
