"""The options that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescli.cli.app import build_command
from rescli.cli.options import (
    DeviceOption,
    DtypeOption,
    OutputOption,
    choose_format,
    complete_target,
    format_option,
    parse_settings,
    request_from,
)
from rescli.errors import CommandLineError, FileError
from rescli.spec.shape import InputShape

FORMATS = ("text", "json")


def example(
    format_name: Annotated[str | None, format_option(*FORMATS)] = None,
    dtype: DtypeOption = None,
    device: DeviceOption = "cpu",
    output: OutputOption = None,
) -> None:
    """Take the options that have checks."""


def parse(*arguments: str) -> dict[str, object]:
    params: dict[str, object] = (
        build_command("example", example).make_context("example", list(arguments)).params
    )
    return params


def test_values_that_exist_pass(tmp_path: Path) -> None:
    file = str(tmp_path / "a.json")
    arguments = ("--format", "json", "--dtype", "bfloat16", "--device", "cuda:1", "-o", file)
    assert parse(*arguments) == {
        "format_name": "json",
        "dtype": "bfloat16",
        "device": "cuda:1",
        "output": Path(file),
    }


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (("--format", "xml"), "--format xml: this command does not write that", "one of text, json"),
        (
            ("--dtype", "int8"),
            "--dtype int8: this is no floating point type of PyTorch",
            "one of float32, float64, float16, bfloat16",
        ),
        (
            ("--device", "gpu"),
            "--device gpu: this is no device that rescli knows",
            "one of auto, cpu, cuda, cuda:1, mps",
        ),
        (
            ("--device", "cuda:x"),
            "--device cuda:x: this is no device that rescli knows",
            "one of auto, cpu, cuda, cuda:1, mps",
        ),
    ],
)
def test_values_that_do_not_exist_are_answered_with_those_that_do(
    arguments: tuple[str, ...], message: str, hint: str
) -> None:
    with pytest.raises(CommandLineError) as caught:
        parse(*arguments)
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_an_output_that_cannot_be_written_is_noticed_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="there is no folder"):
        parse("-o", str(tmp_path / "missing" / "a.json"))


@pytest.mark.parametrize(
    ("given_format", "output", "chosen"),
    [
        (None, None, "text"),
        ("json", None, "json"),
        (None, "a.json", "json"),
        (None, "a.JSON", "json"),
        (None, "a.txt", "text"),
        (None, "a.log", "text"),
        (None, "a", "text"),
        ("json", "a.txt", "json"),
        ("text", "a.json", "text"),
        ("text", "a.svg", "text"),
    ],
)
def test_the_format_is_what_was_given_else_what_the_ending_tells(
    given_format: str | None, output: str | None, chosen: str
) -> None:
    assert choose_format(given_format, Path(output) if output else None, FORMATS) == chosen


@pytest.mark.parametrize(
    ("ending", "meant"),
    [("svg", "svg"), ("csv", "csv"), ("md", "markdown"), ("mmd", "mermaid"), ("gv", "dot"), ("htm", "html")],
)
def test_an_ending_that_asks_for_something_else_is_refused(ending: str, meant: str) -> None:
    with pytest.raises(CommandLineError) as caught:
        choose_format(None, Path(f"a.{ending}"), FORMATS)
    assert caught.value.message == (
        f"--output a.{ending}: the ending asks for {meant}, which this command does not write"
    )
    assert caught.value.hint == "give --format text, json"
    assert choose_format(None, Path(f"a.{ending}"), (*FORMATS, meant)) == meant


literals = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(literals)
def test_every_literal_that_python_prints_is_read_back(value: object) -> None:
    assert parse_settings([f"key={value!r}"]) == {"key": value}


def test_settings_have_python_values() -> None:
    texts = ["width=64", "rate = 0.5", "kinds=('a', 'b')", "deep-key=None", "name='x=y'"]
    assert parse_settings(texts) == {
        "width": 64,
        "rate": 0.5,
        "kinds": ("a", "b"),
        "deep_key": None,
        "name": "x=y",
    }


@pytest.mark.parametrize("text", ["width", "=3", "2x=3", "a b=3", ""])
def test_a_setting_without_key_and_value_is_refused(text: str) -> None:
    with pytest.raises(CommandLineError) as caught:
        parse_settings([text])
    assert caught.value.message == f"--set {text}: expected key=value"
    assert caught.value.hint == "for instance --set width=64"


@pytest.mark.parametrize("value", ["tall", "", "nn.Linear", "[1", "__import__('os')", "(" * 500])
def test_a_value_that_is_no_literal_says_how_to_quote_a_text(value: str) -> None:
    with pytest.raises(CommandLineError) as caught:
        parse_settings([f"name={value}"])
    assert caught.value.message == f"--set name={value}: {value!r} is no Python literal"
    assert caught.value.hint.endswith(f"--set \"name='{value}'\"")


def test_a_key_is_given_once() -> None:
    with pytest.raises(CommandLineError, match="--set width is given twice"):
        parse_settings(["width=1", "width=2"])


def test_the_common_options_become_a_request() -> None:
    request = request_from(inputs=["2x3:int64"], settings=["width=4"], dtype="float64", device="auto", seed=7)
    assert request.inputs == (InputShape((2, 3), "int64"),)
    assert request.settings == {"width": 4}
    assert (request.batch_size, request.dtype, request.device, request.seed) == (None, "float64", "auto", 7)


def test_batch_size_and_input_exclude_each_other() -> None:
    with pytest.raises(CommandLineError, match="--batch-size and --input were both given"):
        request_from(inputs=["2x3"], batch_size=4)
    assert request_from(batch_size=4).batch_size == 4


def test_completion_offers_shipped_specs_files_and_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "resized.py").touch()
    (tmp_path / "results.txt").touch()
    (tmp_path / "research").mkdir()
    (tmp_path / "research" / "net.py").touch()
    assert list(complete_target("res")) == ["resnet18", "resnet50", "research/", "resized.py"]
    assert list(complete_target("research/n")) == ["research/net.py"]
    assert list(complete_target("nowhere/n")) == []
