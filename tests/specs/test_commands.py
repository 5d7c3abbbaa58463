"""Every shipped spec goes through every command, on settings that take milliseconds."""

from __future__ import annotations

import ast
import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from rescli.cli.app import run
from rescli.spec.prepare import Request, prepare
from rescli.spec.shape import parse_input
from rescli.spec.target import shipped_specs
from rescli.threads.limits import SCENARIOS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.specs.conftest import Document

PICTURE = "--input 2x3x32x32"
TEXT = "--set width=16 --set heads=2"

# What makes each spec small; the fragments are.
SMALL = {
    "basic": "",
    "concat": "",
    "encoder": "--batch-size 2",
    "gpt2_block": f"{TEXT} --set n=2 --input 2x8x16",
    "gpt2_block:gpt2": f"{TEXT} --set n=2 --set vocabulary=11 --set context=8 --input 2x8:int64",
    "highway": "",
    "highway:CoupledHighway": "--set width=8",
    "learnable_alpha": "",
    "lstm": "--batch-size 2",
    "mobilenet_v2": f"--set width=0.05 --set num_classes=10 {PICTURE}",
    "multiple_skips": "",
    "nested": "",
    "projection": "",
    "resnet18": f"--set width=4 {PICTURE}",
    "resnet50": f"--set width=2 {PICTURE}",
    "rezero_layer": f"{TEXT} --set hidden=32 --input 2x4x16",
    "transformer": "--input 4x2x256",
    "transformer_base_layer": f"{TEXT} --set hidden=32 --input 2x4x16",
    "unet": f"--set width=4 --set depth=2 {PICTURE}",
}
# What is worth knowing of a spec, and no complaint.
NOTES = {
    "learnable_alpha": ("alpha-weight-decay",),
    "multiple_skips": ("unneeded-projection",),
    "transformer": ("batch-second",),
}
# BatchNorm counts and averages in each forward, which is worth a warning.
WITH_BATCH_NORM = {"encoder", "mobilenet_v2", "resnet18", "resnet50", "unet"}


def only(items: list[Any]) -> Any:  # noqa: ANN401 - JSON
    (item,) = items
    return item


def small_request(target: str) -> Request:
    """What the command line makes of the options of ``SMALL``."""
    words = SMALL[target].split()
    options = list(zip(words[::2], words[1::2], strict=True))
    settings = dict(value.split("=") for option, value in options if option == "--set")
    return Request(
        settings={key: ast.literal_eval(value) for key, value in settings.items()},
        inputs=tuple(parse_input(value) for option, value in options if option == "--input"),
        batch_size=next((int(value) for option, value in options if option == "--batch-size"), None),
    )


def test_no_shipped_spec_is_left_out() -> None:
    assert {target.partition(":")[0] for target in SMALL} == {spec.name for spec in shipped_specs()}


@pytest.mark.parametrize("target", SMALL)
def test_a_shipped_spec_is_shown_without_anything_to_complain_of(target: str, document: Document) -> None:
    block = only(document("show", target, *SMALL[target].split())["blocks"])
    assert block["target"] == f"shipped:{target.partition(':')[0]}"
    assert sum(row["parameters"] for row in block["layers"]) == block["parameters"] > 0
    assert block["flops"] == sum(row["flops"] for row in block["layers"]) > 0
    assert block["uncounted"] == []
    # A note is no complaint: that weight decay pulls an alpha is worth knowing wherever there is one.
    assert [each["code"] for each in block["diagnostics"] if each["severity"] != "note"] == []
    records = [row for row in block["layers"] if row["kind"] == "record"]
    assert len(block["edges"]) == len(records)  # each Record of a shipped spec is read once


@pytest.mark.parametrize("target", SMALL)
def test_a_shipped_spec_is_linted_without_an_error_or_a_warning(target: str, document: Document) -> None:
    block = only(document("lint", target, *SMALL[target].split())["blocks"])
    assert block["target"] == f"shipped:{target.partition(':')[0]}"
    found = [(each["code"], each["severity"]) for each in block["diagnostics"]]
    assert found == [(code, "note") for code in NOTES.get(target, ())]


def test_a_mistake_in_a_spec_would_be_found(tmp_path: Path) -> None:
    (spec,) = (spec for spec in shipped_specs() if spec.name == "basic")
    text = spec.path.read_text(encoding="utf-8")
    broken = tmp_path / "broken.py"
    broken.write_text(text.replace('record_name="input"', 'record_name="imput"'), encoding="utf-8")
    assert run(["lint", str(broken), "--format", "json", "--output", str(tmp_path / "found.json")]) == 1
    block = only(json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))["blocks"])
    assert "error" in [each["severity"] for each in block["diagnostics"]]


def measured(target: str, document: Document) -> Any:  # noqa: ANN401 - JSON
    """Measure a little; more where a busy machine left no time for a sample or for counting."""
    options = ["--passes", "forward", "--min-time", "0", "--device", "cpu", "--threads", "1"]
    for most in ("0.3", "3", "30"):
        command = ["bench", target, *SMALL[target].split(), *options, "--max-time", most]
        result = only(document(*command)["results"])
        if result["samples"] and result["flops"] is not None:
            break
    return result


@pytest.mark.parametrize("target", SMALL)
def test_a_shipped_spec_is_measured(target: str, document: Document) -> None:
    result = measured(target, document)
    assert (result["pass"], result["device"]) == ("forward", "cpu")
    assert 0 < result["min_s"] <= result["median_s"]
    shown = only(document("show", target, *SMALL[target].split())["blocks"])
    assert result["flops"] == shown["flops"]


@pytest.mark.parametrize("target", SMALL)
def test_a_shipped_spec_trains_every_parameter(target: str) -> None:
    request = small_request(target)
    (block,) = prepare(target, request)
    block.module(*block.inputs).square().sum().backward()
    assert [key for key, value in block.module.named_parameters() if value.grad is None] == []


# Bounded by numbers alone: so few schedules and calls end long before the time is up.
FEW = "--points layers --random 0 --threads 2 --iterations 1 --max-time 600"
# Of networks of a hundred layers, each of whose forwards takes long, half as many.
DEEP = {"mobilenet_v2", "resnet18", "resnet50", "unet"}
# What a pass says of its schedules: how many of how many, threads, points, and the bound.
EXPLORED = re.compile(
    r"(all [\d,]+|[\d,]+ of [\d,]+) schedules right \(2 threads, [\d, of]+ points each, at most 2 preemptions\)"
)
SKIPPED = {
    "dataparallel": "there is no GPU",
    "lazy": "nothing is made or sized in the first call",
    "batchnorm": "a forward changes no buffer",
}


@pytest.mark.parametrize("target", SMALL)
def test_threads_may_share_a_shipped_spec(
    target: str, document: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    number = 3 if target in DEEP else 6
    options = ("--schedules", str(number), *FEW.split())
    results = document("check-threads", target, *SMALL[target].split(), *options)["results"]
    found = {result["scenario"]: result for result in results}
    assert tuple(found) == tuple(SCENARIOS)
    expected = dict.fromkeys(SCENARIOS, "pass") | dict.fromkeys(SKIPPED, "skip")
    if target == "transformer":
        expected["replicas"] = "warn"  # time comes first, and replicas cut dimension 0
    if target in WITH_BATCH_NORM:
        expected |= {"state": "warn", "batchnorm": "warn"}
        assert "running_mean" in found["state"]["detail"]
        assert "statistics of all but one replica are lost" in found["batchnorm"]["detail"]
    assert {name: result["status"] for name, result in found.items()} == expected
    for name, result in found.items():
        assert result["status"] != "skip" or result["detail"].startswith(SKIPPED[name])
        assert "--max-time" not in result["detail"]
    schedules = {name: result for name, result in found.items() if result["bound"] is not None}
    for result in schedules.values():
        assert result["status"] == "skip" or EXPLORED.search(result["detail"])
    assert {
        name: (result["runs"], result["wrong"], result["threads"]) for name, result in schedules.items()
    } == {
        # One thread after the other, in both orders where there are more than two; the others are interrupted.
        **dict.fromkeys(("shared", "replicas"), (number, 0, 2)),
        **dict.fromkeys(("nested", "copies", "exception"), (2, 0, 2)),
        "lazy": (0, 0, 2),
    }
    assert (found["stress"]["runs"], found["stress"]["wrong"]) == (2, 0)


def test_a_spec_that_threads_may_not_share_would_be_found(tmp_path: Path) -> None:
    path = tmp_path / "keeps.py"
    path.write_text(
        "class Keeps(ResidualSequential):\n"
        "    def forward(self, x):\n"
        "        self.kept = x\n"
        "        return super().forward(x) + self.kept\n\n\n"
        'block = Keeps(Record(name="r"), nn.Linear(4, 4), Apply(record_name="r"))\n',
        encoding="utf-8",
    )
    output = tmp_path / "found.json"
    options = ("--schedules", "6", *FEW.split())
    assert run(["check-threads", str(path), *options, "--format", "json", "--output", str(output)]) == 1
    found = {row["scenario"]: row for row in json.loads(output.read_text(encoding="utf-8"))["results"]}
    # The others have too few schedules of it here, and free threads meet it by luck.
    assert {"shared", "copies"} <= {name for name, row in found.items() if row["status"] == "fail"}
    assert found["shared"]["runs"] == 6
    assert found["shared"]["wrong"] > 0
