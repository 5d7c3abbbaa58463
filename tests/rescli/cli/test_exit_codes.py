"""Which error ends with which exit code."""

from __future__ import annotations

import pytest

from rescli.cli.exit_codes import ExitCode, exit_code_of
from rescli.errors import CommandLineError, FileError, HardwareError, RescliError, SpecError


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CommandLineError("x"), 2),
        (SpecError("x"), 3),
        (HardwareError("x"), 4),
        (FileError("x"), 5),
        (KeyboardInterrupt(), 130),
        (BrokenPipeError(), 0),
        (RescliError("x"), 70),
        (RuntimeError("x"), 70),
        (OSError("x"), 70),
    ],
)
def test_each_error_has_its_code(error: BaseException, code: int) -> None:
    assert exit_code_of(error) == code


def test_every_branch_of_the_error_tree_has_a_code_of_its_own() -> None:
    codes = [exit_code_of(kind("x")) for kind in RescliError.__subclasses__()]
    assert len(set(codes)) == len(codes)
    assert ExitCode.FAULT not in codes


def test_a_subclass_has_the_code_of_its_branch() -> None:
    class SpecialError(SpecError):
        pass

    assert exit_code_of(SpecialError("x")) is ExitCode.SPEC


def test_the_numbers_are_those_of_the_contract() -> None:
    assert {code.name: int(code) for code in ExitCode} == {
        "DONE": 0,
        "CHECK_FAILED": 1,
        "COMMAND_LINE": 2,
        "SPEC": 3,
        "HARDWARE": 4,
        "FILE": 5,
        "FAULT": 70,
        "INTERRUPTED": 130,
    }
