"""Wrong uses of show and lint: each ends with its exit code and one message, and leaves nothing behind."""

from __future__ import annotations

import io
import os
import signal
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rescli.cli.app import run

if TYPE_CHECKING:
    from collections.abc import Iterator

DONE, FAILED, COMMAND_LINE, SPEC, HARDWARE, FILE, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130

SPECS = {
    "good.py": "block = ResidualSequential(Record(), nn.Linear(4, 4), Apply())",
    "two.py": "first = nn.Linear(4, 4)\nsecond = nn.Linear(8, 8)",
    "make.py": """
        def make(width: int) -> nn.Module:
            return nn.Linear(width, width)
        """,
    "plain.py": "def make():\n    return nn.Linear(4, 4)",
    "attention.py": "block = nn.TransformerDecoderLayer(8, 2, batch_first=True)",
    "raises.py": "raise ValueError('bad day')",
    "syntax.py": "block = nn.Linear(4, 4",
    "tabs.py": "if True:\n\tx = 1\n        y = 2",
    "binary.py": "block = '\x00'",
    "empty.py": "",
    "nothing.py": "number = 3",
    "loss.py": "loss = nn.MSELoss()",
    "hidden.py": "_block = nn.Linear(4, 4)",
    "exits.py": "import sys\nsys.exit(7)",
    "quits.py": "import os\nraise SystemExit('enough')",
    "imports.py": "import numpyy",
    "submodule.py": "import os.missing",
    "lacking.py": "from os import missing",
    "recurses.py": "def again():\n    return again()\nagain()",
    "interrupted.py": "raise KeyboardInterrupt",
    "hangs.py": """
        import _thread, threading, time
        threading.Timer(0.05, _thread.interrupt_main).start()
        while True:
            time.sleep(0.01)
        """,
    "hangs_in_forward.py": """
        import _thread, threading, time
        class Hang(nn.Module):
            def forward(self, x):
                threading.Timer(0.05, _thread.interrupt_main).start()
                while True:
                    time.sleep(0.01)
        block = nn.Sequential(nn.Linear(4, 4), Hang())
        """,
    "no_super.py": """
        class Bare(nn.Module):
            def __init__(self):
                self.layer = nn.Linear(4, 4)
        block = Bare()
        """,
    "factory_raises.py": "def make() -> nn.Module:\n    raise ValueError('no variant')",
    "factory_none.py": "def make() -> nn.Module:\n    return None",
    "factory_tuple.py": "def make() -> nn.Module:\n    return nn.Linear(4, 4), 1",
    "factory_exits.py": "def make() -> nn.Module:\n    raise SystemExit(2)",
    "factory_recurses.py": "def make() -> nn.Module:\n    return make()",
    "factory_prints.py": "def make() -> nn.Module:\n    print('hello')\n    return nn.Linear(4, 4)",
    "unknown.py": "block = nn.Sequential(nn.ReLU())",
    "lambda.py": "block = lambda: 3",
    "inputs_odd.py": "block = nn.Linear(4, 4)\nexample_inputs = 'many'",
    "inputs_name.py": "block = nn.Linear(4, 4)\nexample_inputs = {'blokc': (2, 4)}",
    "inputs_empty.py": "block = nn.Linear(4, 4)\nexample_inputs = ()",
    "inputs_wrong.py": "block = nn.Linear(4, 4)\nexample_inputs = (2, 5)",
    "forward_raises.py": """
        class Odd(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 4)
            def forward(self, x):
                raise RuntimeError("not today")
        block = nn.Sequential(Odd())
        """,
    "forward_exits.py": """
        class Odd(nn.Linear):
            def forward(self, x):
                raise SystemExit(3)
        block = nn.Sequential(Odd(4, 4))
        """,
    "forward_recurses.py": """
        class Odd(nn.Linear):
            def forward(self, x):
                return self(x)
        block = nn.Sequential(Odd(4, 4))
        """,
    "forward_missing.py": "class Odd(nn.Linear):\n    forward = None\nblock = Odd(4, 4)",
    "gives_none.py": """
        class Odd(nn.Linear):
            def forward(self, x):
                return None
        block = nn.Sequential(nn.Linear(4, 4), Odd(4, 4))
        """,
    "gives_tuple.py": """
        class Odd(nn.Linear):
            def forward(self, x):
                return x, (None, x)
        block = nn.Sequential(Odd(4, 4))
        """,
    "mismatch.py": "block = ResidualSequential(Record(), nn.Linear(8, 4), Apply())",
    "no_record.py": "block = ResidualSequential(nn.Linear(4, 4), Apply(record_name='nope'))",
    "uncopyable.py": """
        class Only(nn.Linear):
            def __deepcopy__(self, memo):
                raise RuntimeError("there is only one of me")
        block = Only(4, 4)
        """,
}


@dataclass(frozen=True)
class Use:
    line: str
    code: int
    said: str


USES = [
    # What is meant
    Use("show", COMMAND_LINE, "missing argument 'TARGET'"),
    Use("shwo good.py", COMMAND_LINE, "there is no command shwo"),
    Use("show missing.py", SPEC, "there is no file missing.py"),
    Use("show godo.py", SPEC, "did you mean good.py?"),
    Use("show no/such/folder.py", SPEC, "there is no folder no/such"),
    Use("show folder", SPEC, "folder is a folder, not a spec"),
    Use("show good", SPEC, "did you mean good.py?"),
    Use("show resnet81", SPEC, "did you mean resnet18?"),
    Use("show good.py:blokc", SPEC, "did you mean good.py:block?"),
    Use("show no.such.module:net", SPEC, "there is no file, module or shipped spec no.such.module"),
    Use("show os.path", SPEC, "os.path names a module, but no block in it"),
    Use("show os:missing", SPEC, "os defines no missing"),
    Use("show os:sep", SPEC, "neither a torch.nn.Module nor callable"),
    Use("show shipped:nothing", SPEC, "no spec named nothing ships with rescli"),
    Use("show ''", SPEC, "there is no file and no shipped spec ''"),
    Use("show lint", SPEC, "there is no file and no shipped spec 'lint'"),
    Use("lint good.py --all", COMMAND_LINE, "--all and a TARGET were both given"),
    # Options
    Use("show good.py --wdith 3", COMMAND_LINE, "no such option"),
    Use("show good.py --format pdf", COMMAND_LINE, "--format pdf: this command does not write that"),
    Use("lint good.py --format svg", COMMAND_LINE, "--format svg: this command does not write that"),
    Use("show good.py --layers --format json", COMMAND_LINE, "--layers adds a table to text"),
    Use("show good.py --seed first", COMMAND_LINE, "'first' is no whole number"),
    Use("show good.py --batch-size 0", COMMAND_LINE, "0 is less than 1"),
    Use("show good.py --batch-size", COMMAND_LINE, "option '--batch-size' requires an argument"),
    Use("show good.py --batch-size 2 --input 2x4", COMMAND_LINE, "--batch-size and --input were both given"),
    Use("show make.py:make --set width", COMMAND_LINE, "--set width: expected key=value"),
    Use("show make.py:make --set width=wide", COMMAND_LINE, "'wide' is no Python literal"),
    Use("show make.py:make --set width=4 --set width=5", COMMAND_LINE, "--set width is given twice"),
    Use("show make.py:make --set wdith=4", COMMAND_LINE, "make has no argument of that name"),
    Use("show make.py:make", COMMAND_LINE, "make.py:make cannot be called without width"),
    Use("show good.py --set width=4", COMMAND_LINE, "is a module that is built already"),
    Use("show good.py --dtype int8", COMMAND_LINE, "--dtype int8: this is no floating point type"),
    Use("show good.py --device tpu", COMMAND_LINE, "--device tpu: this is no device that rescli knows"),
    Use("show good.py --device cuda:99", HARDWARE, "--device cuda:99: "),
    # Inputs
    Use("show good.py --input 4by4", COMMAND_LINE, "'4by4' is no shape"),
    Use("show good.py --input 4x4:float8", COMMAND_LINE, "'float8' is no type of a tensor"),
    Use("show good.py --input 999999999x999999999", COMMAND_LINE, "does not fit into memory"),
    Use("show two.py:first --input 2x4 --input 2x4", COMMAND_LINE, "--input was given 2 times"),
    Use("show attention.py --input 2x3x8", COMMAND_LINE, "missing a required argument: 'memory'"),
    Use(
        "show two.py --input 2x4",
        SPEC,
        "--input is given to each of the 2 blocks of two.py; two.py:NAME takes one",
    ),
    Use("show two.py:first --input 2x4:int64", SPEC, "two.py:first could not be run"),
    Use("lint two.py:first --input 2x5", FAILED, ""),
    Use("show unknown.py", SPEC, "the input of block cannot be worked out"),
    Use("show inputs_odd.py", SPEC, "example_inputs is 'many'"),
    Use("show inputs_empty.py", SPEC, "example_inputs is ()"),
    Use("show inputs_name.py", SPEC, "did you mean 'block'?"),
    Use("show inputs_wrong.py", SPEC, "inputs_wrong.py:block could not be run"),
    # Output
    Use("show good.py -o good.py/x.json", FILE, "there is no folder good.py"),
    Use("show good.py -o missing/x.json", FILE, "mkdir -p missing"),
    Use("show good.py -o folder", FILE, "cannot write folder: it is a folder"),
    Use("show good.py -o x.pdf", COMMAND_LINE, "the ending .pdf tells no format"),
    Use("lint good.py -o x.svg", COMMAND_LINE, "the ending asks for svg"),
    Use("show missing.py -o x.json", SPEC, "there is no file missing.py"),
    Use("show raises.py -o x.json", SPEC, "raises.py could not be loaded"),
    # Files
    Use("show raises.py", SPEC, "ValueError: bad day"),
    Use("lint raises.py", SPEC, "ValueError: bad day"),
    Use("show syntax.py", SPEC, "SyntaxError: '(' was never closed"),
    Use("show tabs.py", SPEC, "tabs.py could not be loaded"),
    Use("show binary.py", SPEC, "binary.py could not be loaded"),
    Use("show empty.py", SPEC, "empty.py defines no block"),
    Use("lint nothing.py", SPEC, "nothing.py defines no block"),
    Use("show loss.py", SPEC, "loss is a loss"),
    Use("show hidden.py", SPEC, "_block begins with an underscore"),
    Use("show plain.py", SPEC, "annotate a function with -> nn.Module"),
    Use("show exits.py", SPEC, 'belongs under `if __name__ == "__main__":`'),
    Use("show quits.py", SPEC, "SystemExit: enough"),
    Use("show imports.py", SPEC, "No module named 'numpyy'"),
    Use("show submodule.py", SPEC, "No module named 'os.missing'"),
    Use("show lacking.py", SPEC, "cannot import name 'missing'"),
    Use("show recurses.py", SPEC, "RecursionError: maximum recursion depth exceeded"),
    Use("show interrupted.py", INTERRUPTED, "Interrupted."),
    Use("show hangs.py -o x.json", INTERRUPTED, "Interrupted."),
    Use("lint hangs_in_forward.py", INTERRUPTED, "Interrupted."),
    Use("show no_super.py", SPEC, "cannot assign module before Module.__init__() call"),
    # Factories
    Use("show factory_raises.py", SPEC, "ValueError: no variant"),
    Use("show factory_none.py", SPEC, "factory_none.py:make returned None, not a torch.nn.Module"),
    Use("show factory_tuple.py", SPEC, "returned an object of type tuple"),
    Use("show factory_exits.py", SPEC, "factory_exits.py:make could not be built"),
    Use("show factory_recurses.py", SPEC, "RecursionError"),
    Use("show factory_prints.py", DONE, "hello"),
    Use("show lambda.py:block", SPEC, "lambda.py:block returned an object of type int"),
    # Blocks
    Use("show forward_raises.py", SPEC, "RuntimeError: not today"),
    Use("lint forward_raises.py", FAILED, ""),
    Use("show forward_exits.py", SPEC, "forward_exits.py:block could not be run"),
    Use("show forward_recurses.py", SPEC, "RecursionError"),
    Use("show forward_missing.py", SPEC, "'NoneType' object is not callable"),
    Use("show gives_none.py", DONE, ""),
    Use("show gives_tuple.py", DONE, ""),
    Use("show mismatch.py", SPEC, "mismatch.py:block could not be run"),
    Use("lint mismatch.py", FAILED, ""),
    Use("lint no_record.py", FAILED, ""),
    Use("show uncopyable.py", SPEC, "the block cannot be copied"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("uses")
    for name, text in SPECS.items():
        (folder / name).write_text(textwrap.dedent(text), encoding="utf-8")
    (folder / "folder").mkdir()
    return folder


@pytest.fixture(autouse=True)
def ctrl_c(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let Ctrl-C work, which shells switch off for what they run in the background; and no colours."""
    monkeypatch.setenv("NO_COLOR", "1")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def words(line: str) -> list[str]:
    return [word.replace("''", "") for word in line.split(" ")]


def test_there_are_many() -> None:
    assert len(USES) >= 60


@pytest.mark.parametrize("use", USES, ids=lambda use: use.line)
def test_a_wrong_use_ends_with_its_code_and_one_message(
    use: Use, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    before = sorted(folder.rglob("*"))
    code = run(words(use.line))
    out, err = capsys.readouterr()
    assert code == use.code, err
    assert use.said in err
    assert sum(line.startswith("Error: ") for line in err.splitlines()) == (code in {2, 3, 4, 5})
    assert "rescli/" not in err.replace("_rescli_spec", "")
    assert "fault of rescli" not in err
    assert len(err.splitlines()) < 100
    if code != SPEC:  # of a block that stops half-way there is something to show
        assert bool(out) == (code in {DONE, FAILED})
    assert sorted(folder.rglob("*")) == before


def test_a_result_that_was_there_stays_where_a_run_fails(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    kept = tmp_path / "x.json"
    for line in ("show hangs.py", "show raises.py", "show good.py --format pdf"):
        kept.write_text("before")
        assert run([*words(line), "-o", str(kept)]) != DONE
        assert kept.read_text() == "before"
        assert list(tmp_path.iterdir()) == [kept]


def test_a_dash_is_the_standard_output(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    assert run(["show", "good.py", "-o", "-"]) == DONE
    assert "Linear" in capsys.readouterr().out
    assert not (folder / "-").exists()


class Closing:
    """Standard streams whose other end is gone, or full."""

    @staticmethod
    def pipe() -> io.TextIOWrapper:
        reading, writing = os.pipe()
        os.close(reading)
        return io.TextIOWrapper(io.FileIO(writing, "w"), encoding="utf-8")

    @staticmethod
    def full() -> io.TextIOWrapper:
        return Path("/dev/full").open("w", encoding="utf-8")


needs_dev_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")


@pytest.mark.parametrize("line", ["show good.py", "lint good.py", "--help", "show --help", "show missing.py"])
@pytest.mark.parametrize(
    ("stream", "end", "code"),
    [
        ("stdout", "pipe", DONE),
        pytest.param("stdout", "full", FILE, marks=needs_dev_full),
        ("stderr", "pipe", DONE),
        pytest.param("stderr", "full", DONE, marks=needs_dev_full),
    ],
)
def test_a_stream_that_takes_nothing_changes_no_code(
    line: str, stream: str, end: str, code: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    with getattr(Closing, end)() as broken:
        monkeypatch.setattr(sys, stream, broken)
        found = run(words(line))
        monkeypatch.undo()
    assert found == (SPEC if "missing" in line else code)


@pytest.mark.parametrize(
    "line", ["show good.py", "show mismatch.py", "lint mismatch.py", "show gives_tuple.py"]
)
def test_an_ascii_stream_and_a_narrow_terminal_get_what_they_can_show(
    line: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "40")
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding="ascii") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        run(words(line))
        monkeypatch.undo()
        stream.flush()
        text = raw.getvalue().decode("ascii")
    assert text.strip()
    assert "\\u" not in text


def test_the_check_sees_a_fault(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr("rescli.cli.commands.show.choose_format", lambda *_: 1 / 0)
    assert run(["show", "good.py"]) == 70
    assert "fault of rescli" in capsys.readouterr().err
