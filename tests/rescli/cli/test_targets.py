"""One command on several targets."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rescli.cli.exit_codes import ExitCode
from rescli.cli.targets import Outcome, chosen_targets, for_each_target
from rescli.errors import CommandLineError, HardwareError
from rescli.spec.request import Request
from rescli.spec.target import quick_targets, shipped_specs

if TYPE_CHECKING:
    from rescli.spec.prepare import PreparedBlock

TWO_BLOCKS = "first = nn.Linear(2, 2)\nsecond = nn.Linear(3, 3)\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("good.py").write_text("block = nn.Linear(4, 4)\n")
    Path("two.py").write_text(TWO_BLOCKS)
    Path("bad.py").write_text("raise ValueError('bad')\n")


def name_of(block: PreparedBlock) -> str:
    return block.target


def names(*targets: str) -> Outcome[str]:
    return for_each_target(targets, Request(), name_of)


def test_every_block_of_every_target_is_worked_on_in_order() -> None:
    assert names("two.py", "good.py", "basic") == Outcome(
        ("two.py:first", "two.py:second", "good.py:block", "shipped:basic"), ExitCode.DONE
    )


def test_the_others_go_on_and_the_highest_code_is_returned(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = names("missing.py", "good.py", "bad.py", "two.py")
    assert outcome == Outcome(("good.py:block", "two.py:first", "two.py:second"), ExitCode.SPEC)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Error: there is no file missing.py" in captured.err
    assert "ValueError: bad" in captured.err


def test_a_block_without_an_input_hides_none_of_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mixed.py").write_text("first = nn.Linear(2, 2)\nsecond = nn.Tanh()\nthird = nn.Linear(3, 3)\n")
    assert names("mixed.py") == Outcome(("mixed.py:first", "mixed.py:third"), ExitCode.SPEC)
    assert "the input of second cannot be worked out" in capsys.readouterr().err


def test_the_highest_code_wins_whatever_the_order() -> None:
    def work(block: PreparedBlock) -> None:
        raise HardwareError(block.name) if block.name == "first" else CommandLineError(block.name)

    assert for_each_target(["two.py"], Request(), work).code is ExitCode.HARDWARE


def test_one_block_of_a_file_that_fails_does_not_stop_the_next() -> None:
    def work(block: PreparedBlock) -> str:
        if block.name == "first":
            block.module(block.inputs[0][:, :1])
        return block.name

    assert for_each_target(["two.py"], Request(), work) == Outcome(("second",), ExitCode.SPEC)


def test_a_fault_of_ours_is_not_swallowed() -> None:
    def work(_: PreparedBlock) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        for_each_target(["good.py"], Request(), work)


def test_ctrl_c_keeps_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    def work(block: PreparedBlock) -> str:
        if block.name == "second":
            raise KeyboardInterrupt
        return block.name

    assert for_each_target(["two.py", "good.py"], Request(), work) == Outcome(
        ("first",), ExitCode.INTERRUPTED
    )
    assert capsys.readouterr().err == "Interrupted.\n"


def test_what_a_spec_prints_stays_out_of_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    Path("loud.py").write_text("print('hello')\nblock = nn.Linear(2, 2)\n")
    names("loud.py")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "hello\n")


def test_a_spec_that_changes_the_folder_does_not_move_the_next_target() -> None:
    Path("moves.py").write_text("import os\nos.chdir('/')\nblock = nn.Linear(2, 2)\n")
    here = Path.cwd()
    assert names("moves.py", "good.py").results == ("moves.py:block", "good.py:block")
    assert Path.cwd() == here


@pytest.mark.skipif(os.name == "nt", reason="Windows does not remove a folder that is in use")
def test_a_folder_that_is_gone_does_not_stop_shipped_specs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert names("basic", "nowhere_at_all:x") == Outcome(("shipped:basic",), ExitCode.SPEC)


def test_a_missing_file_is_reported_before_torch_is_imported() -> None:
    import subprocess

    code = (
        "import sys; from rescli.cli.targets import for_each_target; from rescli.spec.request import Request;"
        "print(int(for_each_target(['missing.py'], Request(), print).code), 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "3 False\n"


def test_without_a_target_the_quick_set_is_taken() -> None:
    assert chosen_targets(None) == chosen_targets([]) == quick_targets()


def test_all_takes_every_shipped_spec() -> None:
    assert chosen_targets(None, take_all=True) == tuple(spec.name for spec in shipped_specs())


def test_a_target_and_all_exclude_each_other() -> None:
    assert chosen_targets(["a.py", "b.py"]) == ("a.py", "b.py")
    with pytest.raises(CommandLineError, match="--all and a TARGET were both given"):
        chosen_targets(["a.py"], take_all=True)
