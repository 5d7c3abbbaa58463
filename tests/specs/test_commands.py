"""Every shipped spec goes through every command, on settings that take milliseconds."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

import pytest

from rescli.spec.prepare import Request, prepare
from rescli.spec.shape import parse_input
from rescli.spec.target import shipped_specs

if TYPE_CHECKING:
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
    "mobilenet_v2": f"--set width=0.05 {PICTURE}",
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


def measured(target: str, document: Document) -> Any:  # noqa: ANN401 - JSON
    """Measure a little; more where a busy machine left no time for samples or for counting."""
    options = ["--passes", "forward", "--min-time", "0", "--device", "cpu", "--threads", "1"]
    for most in ("0.3", "3", "30"):
        command = ["bench", target, *SMALL[target].split(), *options, "--max-time", most]
        result = only(document(*command)["results"])
        if result["samples"] > 1 and result["flops"] is not None:
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


@pytest.mark.parametrize("target", SMALL)
def test_threads_may_share_a_shipped_spec(target: str, document: Document) -> None:
    # The scenarios themselves have their own tests; networks of a hundred layers take seconds in each.
    scenarios = "state" if target in WITH_BATCH_NORM else "state,shared,replicas"
    options = ("--scenario", scenarios, "--schedules", "2", "--iterations", "1", "--max-time", "20")
    results = document("check-threads", target, *SMALL[target].split(), *options)["results"]
    statuses = {result["scenario"]: result["status"] for result in results}
    expected = dict.fromkeys(scenarios.split(","), "pass")
    if target == "transformer":
        expected["replicas"] = "warn"  # time comes first, and replicas cut dimension 0
    if target in WITH_BATCH_NORM:
        expected["state"] = "warn"
        (state,) = (result for result in results if result["scenario"] == "state")
        assert "running_mean" in state["detail"]
    assert statuses == expected
    assert {result["wrong"] for result in results if result["status"] == "pass"} <= {0}
