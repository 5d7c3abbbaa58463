"""The command line as a whole: what is printed, and with which code it ends."""

from __future__ import annotations

import importlib
import inspect
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rescli import __version__
from rescli.cli.app import COMMANDS
from rescli.cli.commands import specs as specs_command
from rescli.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from tests.rescli.cli.conftest import RunRescli


def start(*arguments: str, **options: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "rescli", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "encoding": "utf-8"}
    return subprocess.Popen(command, **{**pipes, **options})  # type: ignore[call-overload, no-any-return] # by name


def test_the_version_is_printed(rescli: RunRescli) -> None:
    ended = rescli("--version")
    assert (ended.code, ended.out, ended.err) == (0, f"rescli {__version__}\n", "")


def test_help_lists_every_command_with_its_summary(rescli: RunRescli) -> None:
    ended = rescli("--help")
    assert ended.code == 0
    listed = ended.out.partition("Commands:\n")[2]
    assert " ".join(listed.split()) == " ".join(f"{e.name} {e.summary}" for e in COMMANDS.values())


def test_without_a_command_the_help_goes_to_stderr(rescli: RunRescli) -> None:
    ended = rescli()
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == rescli("--help").out


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_listed_as_it_describes_itself(name: str) -> None:
    entry = COMMANDS[name]
    module = importlib.import_module(f"rescli.cli.commands.{entry.module}")
    docstring = inspect.getdoc(getattr(module, entry.module))
    assert docstring is not None
    assert docstring.partition("\n\n")[0] == entry.summary


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_ends_before_what_only_readers_of_the_code_want(
    rescli: RunRescli, name: str
) -> None:
    ended = rescli(name, "--help")
    assert ended.code == 0
    assert "Args:" not in ended.out
    assert "--traceback" in ended.out
    assert ended.out.isascii()


@pytest.mark.parametrize(
    ("arguments", "err"),
    [
        (("shw",), "Error: there is no command shw\nHint: did you mean show?\n"),
        (
            ("zzz",),
            "Error: there is no command zzz\nHint: one of show, lint, bench, check-threads, specs, env\n",
        ),
        (("--zzz",), "Error: no such option: --zzz\nHint: `rescli --help` lists what can be typed\n"),
        (
            ("specs", "--format", "xml"),
            "Error: --format xml: this command does not write that\nHint: one of text, json\n",
        ),
        (("show",), "Error: missing argument 'TARGET'\nHint: `rescli show --help` lists what can be typed\n"),
        (
            ("show", "basic", "--input", "8x"),
            (
                "Error: --input 8x: '8x' is no shape\n"
                "Hint: for instance 8x64, 4x64x100, 2x16:int64; 1 is the shape (1,)\n"
            ),
        ),
    ],
)
def test_a_wrong_command_line_is_one_message_and_a_way_out(
    rescli: RunRescli, arguments: tuple[str, ...], err: str
) -> None:
    ended = rescli(*arguments)
    assert (ended.code, ended.out, ended.err) == (2, "", err)


@pytest.mark.parametrize(
    "arguments",
    [
        ("specs", "extra"),
        ("specs", "--format"),
        ("show", "basic", "--seed", "x"),
        ("show", "basic", "--seed", "-1"),
        ("show", "basic", "--batch-size", "0"),
        ("show", "basic", "--set", "width"),
        ("show", "basic", "--dtype", "int8"),
        ("show", "basic", "--device", "gpu"),
        ("show", "basic", "--input", "8x64", "--batch-size", "4"),
        ("specs", "-o", "list.svg"),
    ],
)
def test_every_wrong_option_ends_with_2_and_one_error(rescli: RunRescli, arguments: tuple[str, ...]) -> None:
    ended = rescli(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.count("Error: ") == 1
    assert "Traceback" not in ended.err


def test_a_missing_spec_ends_with_3_without_a_traceback(rescli: RunRescli) -> None:
    ended = rescli("show", "missing.py")
    assert (ended.code, ended.out) == (3, "")
    assert ended.err.startswith("Error: there is no file missing.py\n")
    assert "Traceback" not in ended.err


def test_an_unwritable_output_ends_with_5(rescli: RunRescli) -> None:
    ended = rescli("specs", "-o", "missing/list.txt")
    assert (ended.code, ended.out) == (5, "")
    assert (
        ended.err
        == "Error: cannot write missing/list.txt: there is no folder missing\nHint: mkdir -p missing\n"
    )


def test_traceback_shows_everything_of_a_users_mistake(rescli: RunRescli) -> None:
    for arguments in (("--traceback", "show", "missing.py"), ("show", "missing.py", "--traceback")):
        ended = rescli(*arguments)
        assert ended.code == 3
        assert "Traceback (most recent call last):" in ended.err
        assert "rescli/spec/target.py" in ended.err.replace(os.sep, "/")
        assert ended.err.partition("\nError: ")[2].startswith("there is no file missing.py\n")


def test_traceback_is_forgotten_after_the_run(rescli: RunRescli) -> None:
    rescli("show", "missing.py", "--traceback")
    assert "Traceback" not in rescli("show", "missing.py").err


def test_a_broken_spec_shows_its_own_lines_and_with_traceback_ours_too(rescli: RunRescli) -> None:
    Path("net.py").write_text("def deep():\n    raise ValueError('odd')\ndeep()\n")
    ended = rescli("show", "net.py")
    assert ended.code == 3
    assert "in deep" in ended.err
    assert "rescli/spec" not in ended.err
    assert "rescli/spec" in rescli("show", "net.py", "--traceback").err


def test_a_fault_of_ours_ends_with_70_and_says_so(rescli: RunRescli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(specs_command, "shipped_specs", lambda: 1 // 0)
    ended = rescli("specs")
    assert (ended.code, ended.out) == (70, "")
    assert ended.err.startswith(
        "Error: rescli failed on its own account: ZeroDivisionError: integer division or modulo by zero\n"
        "Hint: this is a fault of rescli, not of your input; --traceback shows where."
    )
    assert "Traceback (most recent call last):" in rescli("specs", "--traceback").err


def test_another_package_of_the_librarys_name_is_said_to_be_in_the_way(
    rescli: RunRescli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def import_from_the_other() -> None:
        raise ImportError("cannot import name 'recorded_for'", name="torchresidual.core")

    monkeypatch.setattr(specs_command, "shipped_specs", import_from_the_other)
    ended = rescli("specs")
    assert ended.code == ExitCode.FILE
    assert "the package torchresidual that Python finds is not the one that came with rescli" in ended.err
    assert "rescli env" in ended.err


def test_ctrl_c_ends_with_130(rescli: RunRescli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(specs_command, "shipped_specs", interrupt)
    ended = rescli("specs")
    assert (ended.code, ended.err) == (130, "Interrupted.\n")


def test_ctrl_c_that_comes_out_as_another_error_ends_with_130_too(
    rescli: RunRescli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def swallow() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise ImportError("cannot load module more than once per process") from None

    monkeypatch.setattr(specs_command, "shipped_specs", swallow)
    ended = rescli("specs")
    assert (ended.code, ended.err) == (130, "Interrupted.\n")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_in_the_middle_of_a_spec_ends_with_130(tmp_path: Path) -> None:
    spec = tmp_path / "slow.py"
    spec.write_text("import time\nprint('started', flush=True)\ntime.sleep(60)\n")
    process = start("show", str(spec))
    assert process.stderr is not None
    assert process.stderr.readline() == "started\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "Interrupted.\n")


def test_a_reader_that_leaves_early_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    process = start("specs", stdout=write)
    os.close(write)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")


def test_a_reader_that_leaves_in_the_middle_is_no_error() -> None:
    # More than a pipe holds: the write itself fails, not only the flush at the end.
    code = (
        "import sys, rescli.cli.commands.specs as s; s.render_specs_text = lambda found: 'x' * 10_000_000;"
        "from rescli.cli.app import run; sys.exit(run(['specs']))"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.read(1) == b"x"
    process.stdout.close()
    assert process.stderr is not None
    err = process.stderr.read()
    process.stderr.close()
    assert (process.wait(60), err) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_behind_the_output_ends_with_5() -> None:
    with Path("/dev/full").open("w") as full:
        process = start("specs", stdout=full)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (
        5,
        "Error: cannot write the standard output: no space left on device\n",
    )


@pytest.mark.skipif(os.name == "nt", reason="needs a shell that can close a stream")
def test_closed_streams_are_no_error() -> None:
    command = f"'{sys.executable}' -m rescli specs >&- 2>&-"
    assert subprocess.run(["/bin/sh", "-c", command], check=False).returncode == 0


def test_an_ascii_terminal_gets_names_as_escapes(tmp_path: Path) -> None:
    environ = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    process = start("show", "größe.py", env=environ, cwd=tmp_path)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 3
    assert err.splitlines()[0] == "Error: there is no file gr\\xf6\\xdfe.py"


def test_completion_offers_commands_without_importing_torch() -> None:
    code = """
        import atexit, os, sys
        os.environ.update(_RESCLI_COMPLETE="complete_bash", COMP_WORDS="rescli s", COMP_CWORD="1")
        atexit.register(lambda: print("torch" in sys.modules))
        from rescli.cli.app import run
        run([])
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["show", "specs", "False"]


def test_completion_offers_targets() -> None:
    environ = {
        **os.environ,
        "_RESCLI_COMPLETE": "complete_bash",
        "COMP_WORDS": "rescli show resnet1",
        "COMP_CWORD": "2",
    }
    process = start(env=environ)
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out.split()) == (0, ["resnet18"])


def test_the_module_starts_as_the_command_does() -> None:
    process = start("--version")
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, f"rescli {__version__}\n")
