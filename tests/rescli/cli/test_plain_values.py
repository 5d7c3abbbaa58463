from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from rescli.cli.app import COMMANDS, build_command, run
from rescli.cli.plain_values import PlainValue


@pytest.mark.parametrize(
    ("value", "typed", "expected"),
    [
        (PlainValue(int, low=1), "8", 8),
        (PlainValue(float), "0.5", 0.5),
        (PlainValue(float), 2, 2.0),
        (PlainValue(Path), "a/b", Path("a/b")),
        (PlainValue(str), None, None),
        (PlainValue(str, many=True), ("a", "b"), ["a", "b"]),
        (PlainValue(str, many=True), None, []),
    ],
)
def test_texts_become_values(value: PlainValue, typed: object, expected: object) -> None:
    found = value.coerce(typed, None, None)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("value", "typed", "said"),
    [
        (PlainValue(int), "8.5", "'8.5' is no whole number"),
        (PlainValue(float), "fast", "'fast' is no number"),
        (PlainValue(float), "nan", "'nan' is no number"),
        (PlainValue(int, low=1), "0", "0 is less than 1"),
        (PlainValue(int, high=7), "8", "8 is more than 7"),
    ],
)
def test_what_is_no_value_is_refused(value: PlainValue, typed: str, said: str) -> None:
    with pytest.raises(typer.BadParameter) as raised:
        value.coerce(typed, None, None)
    assert raised.value.message == said


def test_the_message_names_the_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", "resnet18", "--batch-size", "many"]) == 2
    assert capsys.readouterr().err == (
        "Error: invalid value for '--batch-size': 'many' is no whole number\n"
        "Hint: `rescli show --help` lists what can be typed\n"
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_no_parameter_of_a_command_is_left_to_pydantic(name: str) -> None:
    module = COMMANDS[name].module
    command = build_command(name, getattr(importlib.import_module(f"rescli.cli.commands.{module}"), module))
    left = [
        param.name
        for param in command.get_params(command.make_context(name, ["x"], resilient_parsing=True))
        if hasattr(param, "_runtime_param") and not isinstance(param._runtime_param, PlainValue)
    ]
    assert left == []


def test_a_wrong_target_imports_neither_pydantic_nor_torch(tmp_path: Path) -> None:
    code = (
        "import sys; from rescli.cli.app import run; assert run(['show', 'nope.py', '--seed', '1']) == 3; "
        "print({'torch', 'pydantic'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"
