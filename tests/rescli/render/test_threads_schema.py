"""docs/schema/threads-1.json: what is written is valid, and what lacks a promised field is not."""

from __future__ import annotations

import copy
import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest

import rescli
from rescli.render.threads_json import threads_json
from rescli.threads.limits import SCENARIOS, SCHEDULED
from tests.rescli.render.test_schema import objects_in, promises, schema_of, validator_of
from tests.rescli.render.test_threads_text import ALL
from tests.rescli.threads.planted import KeepsMean, MakesLayer, example

Json = Any


@pytest.fixture(scope="module")
def found() -> Json:
    """Check a module with a fault at its layers, and one with a fault between its lines."""
    results = (
        *rescli.check_threads(KeepsMean(), example(3), schedules=6, iterations=2, max_time_s=60),
        *rescli.check_threads(MakesLayer(), example(3), scenarios=["shared"], max_time_s=60),
    )
    return json.loads(threads_json(results))


def test_the_schema_is_one_itself() -> None:
    jsonschema.Draft202012Validator.check_schema(schema_of("threads"))


def test_real_results_are_valid(found: Json) -> None:
    validator_of("threads").validate(found)
    validator_of("threads").validate(json.loads(threads_json(ALL)))
    events = {step["event"] for row in found["results"] if row["failure"] for step in row["failure"]["steps"]}
    assert events == {"entry", "exit", "line", "end"}


def test_every_scenario_is_known_and_no_other(found: Json) -> None:
    result = schema_of("threads")["$defs"]["result"]["properties"]
    assert result["scenario"]["enum"] == list(SCENARIOS)
    assert {row["scenario"] for row in found["results"]} == set(SCENARIOS)
    assert {row["scenario"] for row in found["results"] if row["bound"] is not None} == set(SCHEDULED)


def test_more_fields_are_welcome_at_every_level(found: Json) -> None:
    document = copy.deepcopy(found)
    for part in objects_in(document):
        part["more"] = None
    validator_of("threads").validate(document)


def test_a_document_without_a_promised_field_is_refused(found: Json) -> None:
    validator = validator_of("threads")
    for name in {name for _, required in promises(schema_of("threads")) for name in required}:
        document = copy.deepcopy(found)
        holders = [part for part in objects_in(document) if name in part]
        assert holders, f"no document has {name}"
        for part in holders:
            del part[name]
        assert not validator.is_valid(document), name


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("status", "ok"),
        ("scenario", "idle"),
        ("runs", -1),
        ("runs", None),
        ("threads", 0),
        ("bound", "2"),
        ("schedule", "A1,B,A"),
        ("schedule", "shared:A1"),
        ("failure", {}),
        ("changed", None),
    ],
)
def test_a_wrong_value_is_refused_where_it_stands(field: str, wrong: Json, found: Json) -> None:
    document = copy.deepcopy(found)
    document["results"][1][field] = wrong
    (error,) = validator_of("threads").iter_errors(document)
    assert tuple(error.absolute_path) == ("results", 1, field)
