"""The JSON Schema of a benchmark: real documents are valid, spoilt ones are not."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest
import torch
from torch import nn

import rescli
from rescli.bench import result
from rescli.bench.result import BenchResult, BenchWarning
from rescli.render.bench_json import bench_json
from tests.rescli.bench.paper_time import paper_time
from tests.rescli.render.test_bench_formats import COMPARED
from tests.rescli.render.test_bench_text import FOUR, SWEEP
from torchresidual import Apply, Record, ResidualSequential

SCHEMA = json.loads(
    (Path(__file__).parents[3] / "docs" / "schema" / "bench-1.json").read_text(encoding="utf-8")
)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def written(found: BenchResult) -> Any:  # noqa: ANN401 - JSON is what it is
    return json.loads(bench_json(found))


def test_the_schema_is_one_itself() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize(
    "found", [FOUR, SWEEP, COMPARED, BenchResult(FOUR.environment, (), interrupted=True)]
)
def test_what_is_written_is_valid(found: BenchResult) -> None:
    VALIDATOR.validate(written(found))
    VALIDATOR.validate(json.loads(bench_json(found, with_samples=True)))


def test_a_run_on_this_machine_is_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    block = ResidualSequential(Record(), nn.Linear(4, 4), Apply())
    for _ in paper_time(monkeypatch):
        found = rescli.benchmark(block, torch.ones(2, 4), versus="plain", passes=["inference"], min_time_s=0)
    document = written(found)
    VALIDATOR.validate(document)
    assert [one["kind"] for one in document["comparisons"]] == ["versus"]


def test_every_code_and_verdict_is_in_the_schema() -> None:
    parts = SCHEMA["$defs"]
    codes = get_args(result.WarningCode)
    assert sorted(parts["warning"]["properties"]["code"]["enum"]) == sorted(codes)
    assert sorted(parts["comparison"]["properties"]["verdict"]["enum"]) == sorted(get_args(result.Verdict))
    assert parts["row"]["properties"]["pass"]["enum"] == list(result.PASSES)


def test_every_field_that_is_promised_is_required_and_refused_if_it_is_missing() -> None:
    document = written(COMPARED)
    for kind in ("results", "comparisons"):
        for name in document[kind][0]:
            spoilt = copy.deepcopy(document)
            del spoilt[kind][0][name]
            assert not VALIDATOR.is_valid(spoilt), name
    for name in document:
        assert not VALIDATOR.is_valid({key: value for key, value in document.items() if key != name}), name


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("results", "pass", "sideways"),
        ("results", "median_s", "1 ms"),
        ("results", "ci95_s", [1.0]),
        ("results", "batch_size", 0),
        ("results", "variant", "other"),
        ("results", "warnings", [{"code": "unsteady"}]),
        ("comparisons", "verdict", "better"),
        ("comparisons", "ratio", None),
        ("comparisons", "paired", 1),
    ],
)
def test_a_wrong_value_is_refused(kind: str, name: str, value: object) -> None:
    document = written(COMPARED)
    document[kind][0][name] = value
    assert not VALIDATOR.is_valid(document)


def test_more_fields_are_welcome() -> None:
    document = written(replace(COMPARED, results=(replace(COMPARED.results[0], warnings=(UNSTEADY,)),)))
    for part in (document, document["results"][0], document["comparisons"][0], document["environment"]):
        part["more"] = None
    VALIDATOR.validate(document)


UNSTEADY = BenchWarning("unsteady", {"share": 0.2})
