"""The JSON Schema files of docs/schema: real documents are valid, and one that lacks a promised field is not."""

from __future__ import annotations

import copy
import json
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest
import torch
from torch import nn

from rescli.bench.environment import describe_environment
from rescli.bench.result import Gpu
from rescli.graph.model import (
    BlockGraph,
    Diagnostic,
    EdgeFact,
    Failure,
    InputFact,
    InsertedFact,
    LayerFact,
    LintedBlock,
    TensorFact,
    WeightFact,
)
from rescli.graph.trace import trace
from rescli.packages.find import find_packages
from rescli.packages.result import Distribution
from rescli.render.env_json import render_env_json
from rescli.render.lint_json import render_lint_json
from rescli.render.show_json import render_show_json
from rescli.render.specs_json import render_specs_json
from rescli.spec.target import shipped_specs
from tests.rescli.graph import blocks
from tests.rescli.render import test_show_json as promised
from torchresidual import Apply, LearnableAlpha, Record, ResidualSequential

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMAS = Path(__file__).parents[3] / "docs" / "schema"
COMMANDS = ("show", "lint", "specs", "env")
Json = Any


def schema_of(command: str) -> Json:
    return json.loads((SCHEMAS / f"{command}-1.json").read_text(encoding="utf-8"))


def validator_of(command: str) -> Any:  # noqa: ANN401 - jsonschema ships no types
    return jsonschema.Draft202012Validator(schema_of(command))


def shown() -> str:
    """Write blocks with everything that a document can hold: unknown values, failures, weights of every kind."""
    odd = ResidualSequential(
        Record(),
        blocks.Layer(lambda x, _w: (torch.fft.fft(x).real, None)),
        Apply("multiply", scale=torch.tensor([float("inf")])),
    )
    learned = ResidualSequential(
        Record(name="r"), nn.Linear(8, 8), Apply("gated", "r", alpha=LearnableAlpha(0.01, 1e-4, 1.0))
    )
    broken = ResidualSequential(Record(name="r"), nn.Linear(8, 4), Apply(record_name="r"), nn.Linear(4, 4))
    own = ResidualSequential(Record(), nn.Linear(8, 4), Apply(projection=nn.Linear(8, 4)))
    cases = [
        *(blocks.crossing(), blocks.projected(), blocks.highway(), blocks.nested(), blocks.recurrent()),
        *((each, (torch.zeros(2, 8),)) for each in (odd, learned, broken, own)),
    ]
    graphs = [trace(module, inputs, name="b", target="a.py:b", origin="spec") for module, inputs in cases]
    return render_show_json(graphs)


def linted() -> str:
    found = Diagnostic("unused-record", "warning", "0", "nobody reads it", "take it out")
    return render_lint_json([LintedBlock("a", "a.py:a", (found,)), LintedBlock("b", "a.py:b", ())])


def listed() -> str:
    return render_specs_json(shipped_specs())


def described() -> str:
    """Write this machine as if it had a GPU, and another distribution in the way."""
    environment = replace(describe_environment(), gpus=(Gpu(0, "a GPU", 1 << 34),), cuda="13.0")
    packages = find_packages()
    library = replace(packages.torchresidual, also_provided_by=(Distribution("torchresidual", "0.1.0"),))
    return render_env_json(environment, replace(packages, torchresidual=library))


@pytest.fixture(scope="module")
def documents() -> dict[str, Json]:
    written = {"show": shown(), "lint": linted(), "specs": listed(), "env": described()}
    return {command: json.loads(text) for command, text in written.items()}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_schema_is_one_itself(command: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schema_of(command))


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_written_is_valid(command: str, documents: dict[str, Json]) -> None:
    validator_of(command).validate(documents[command])


def test_this_machine_is_valid_too() -> None:
    validator_of("env").validate(json.loads(render_env_json(describe_environment(), find_packages())))


@pytest.mark.parametrize("command", COMMANDS)
def test_more_fields_are_welcome_at_every_level(command: str, documents: dict[str, Json]) -> None:
    document = copy.deepcopy(documents[command])
    for part in objects_in(document):
        # Of packages each field is a version.
        part["more"] = None
    validator_of(command).validate(document)


def objects_in(value: Json) -> Iterator[dict[str, Json]]:
    """Yield every object of a document, the inner ones first."""
    if isinstance(value, list):
        for item in value:
            yield from objects_in(item)
    elif isinstance(value, dict):
        for item in list(value.values()):
            yield from objects_in(item)
        yield value


def promises(schema: Json) -> Iterator[tuple[dict[str, Json], list[str]]]:
    """Yield each object that a schema describes, with the fields that it must have."""
    for part in objects_in(schema):
        if "required" in part and part.get("type") == "object":
            yield part, part["required"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_document_without_a_promised_field_is_refused(command: str, documents: dict[str, Json]) -> None:
    names = {name for _, required in promises(schema_of(command)) for name in required}
    validator = validator_of(command)
    for name in names:
        document = copy.deepcopy(documents[command])
        # A name may be promised of one object and be there by chance in another: take it out of all.
        holders = [part for part in objects_in(document) if name in part]
        assert holders, f"no document has {name}"
        for part in holders:
            del part[name]
        assert not validator.is_valid(document), name


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        (("schema",), "rescli.show/2"),
        (("blocks", 0, "flops"), 1.5),
        (("blocks", 0, "flops"), None),
        (("blocks", 0, "layers", 0, "kind"), "skip"),
        (("blocks", 0, "layers", 0, "output_shape"), "8x64"),
        (("blocks", 0, "edges", 0, "operation"), "subtract"),
        (("blocks", 0, "edges", 0, "alpha", "space"), "cubic"),
        (("blocks", 0, "inputs", 0, "origin"), "guessed"),
        (("blocks", 0, "peak_bytes_held"), -1),
        (("blocks", 0, "edges", 0, "span_flops"), 0.5),
        (("blocks", 0, "edges", 0, "held_layers"), None),
        (("blocks", 1, "edges", 0, "projection", "sized"), "later"),
        (("blocks", 1, "edges", 0, "projection", "layout"), "unknown"),
    ],
)
def test_a_wrong_value_is_refused(
    place: tuple[str | int, ...], wrong: Json, documents: dict[str, Json]
) -> None:
    document = copy.deepcopy(documents["show"])
    part = document
    for step in place[:-1]:
        part = part[step]
    part[place[-1]] = wrong
    (error,) = validator_of("show").iter_errors(document)
    assert tuple(error.absolute_path)[: len(place)] == place[: len(error.absolute_path)]


def test_what_show_promises_is_required_and_nothing_else() -> None:
    parts = schema_of("show")["$defs"]
    required = {name: set(part["required"]) for name, part in parts.items() if "required" in part}
    assert required == {
        "block": promised.BLOCK,
        "input": {"shape", "dtype", "origin"},
        "tensor": {"shape", "dtype"},
        "layer": promised.LAYER,
        "edge": promised.EDGE,
        "weight": {"value", "learnable", "min", "max", "space"},
        "inserted": promised.INSERTED,
        "diagnostic": {"code", "severity", "path", "message", "hint"},
    }
    assert schema_of("lint")["$defs"]["diagnostic"] == parts["diagnostic"]
    assert schema_of("lint")["$defs"]["block"]["required"] == ["name", "target", "diagnostics"]


def undescribed(schema: Json) -> dict[str, set[str]]:
    """Name the fields of the facts that a schema says nothing of."""
    parts = schema["$defs"]
    facts = {
        "block": BlockGraph,
        "input": InputFact,
        "tensor": TensorFact,
        "layer": LayerFact,
        "edge": EdgeFact,
        "weight": WeightFact,
        "inserted": InsertedFact,
        "failure": Failure,
        "diagnostic": Diagnostic,
    }
    missing = {
        name: {entry.name for entry in fields(fact)} - set(parts[name]["properties"])
        for name, fact in facts.items()
    }
    return {name: names for name, names in missing.items() if names}


def test_every_field_that_show_writes_is_described() -> None:
    schema = schema_of("show")
    assert undescribed(schema) == {}
    del schema["$defs"]["edge"]["properties"]["held_layers"]
    assert undescribed(schema) == {"edge": {"held_layers"}}
