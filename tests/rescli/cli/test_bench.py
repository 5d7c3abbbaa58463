from __future__ import annotations

import inspect
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import torch

from rescli.cli.app import run
from rescli.cli.commands.bench import bench
from rescli.spec.target import quick_targets
from tests.rescli.bench.paper_time import BACKWARD_S, LAYER_S, paper_time

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SPEC = """
small = nn.Linear(64, 64)

example_inputs = (8, 64)
"""
BROKEN = """
class Broken(nn.Module):
    def forward(self, x):
        return x.no_such_thing()

block = Broken()
example_inputs = (8, 64)
"""
STOPS = '''
class Stops(nn.Module):
    """As if Ctrl-C were pressed while the thousandth call runs."""

    calls = 0

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 64)

    def forward(self, x):
        Stops.calls += 1
        if Stops.calls == 1000:
            raise KeyboardInterrupt
        return self.layer(x)

first = Stops()
second = nn.Linear(64, 64)
example_inputs = (8, 64)
'''
# Seconds on paper: thirty samples that are all alike are enough.
QUICK = ["--min-time", "0", "--threads", "1"]


@pytest.fixture(autouse=True)
def _on_paper(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for _ in paper_time(monkeypatch):
        yield


@pytest.fixture
def spec(tmp_path: Path) -> str:
    path = tmp_path / "spec.py"
    path.write_text(SPEC)
    return str(path)


def document(text: str) -> Any:  # noqa: ANN401 - JSON is what it is
    return json.loads(text)


def test_a_block_is_measured_as_a_table(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", spec, *QUICK]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    # The path is longer than the page.
    assert lines[2:4] == [f"{spec}:small", "  cpu, float32, batch 8"]
    assert lines[4].split()[:4] == ["pass", "median", "95%", "interval"]
    assert [line.split()[0] for line in lines[5:9]] == ["inference", "forward", "backward", "step"]
    # Nobody watches the progress here.
    assert err == ""


def test_json_has_a_row_for_each_pass(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", spec, *QUICK, "--format", "json"]) == 0
    found = document(capsys.readouterr().out)
    assert found["schema"] == "rescli.bench/1"
    assert found["environment"]["threads"] == 1
    passes = [row["pass"] for row in found["results"]]
    assert passes == ["inference", "forward", "backward", "step"]
    for row in found["results"]:
        assert (row["name"], row["target"], row["device"]) == ("small", f"{spec}:small", "cpu")
        assert row["samples"] >= 30
        seconds = {"backward": BACKWARD_S, "step": LAYER_S + BACKWARD_S}.get(row["pass"], LAYER_S)
        assert (row["min_s"], row["median_s"]) == (pytest.approx(seconds), pytest.approx(seconds))
        assert row["first_call_s"] == pytest.approx(seconds)
        assert row["warnings"] == []
        products = 2 if row["pass"] == "step" else 1  # noqa: S105 - a pass is no password
        assert row["flops"] == products * 2 * 8 * 64 * 64
        # The output is 2 KiB, and nothing of it stays.
        assert row["peak_memory_bytes"] >= 8 * 64 * 4
        assert row["retained_bytes"] == 0


def test_threads_are_put_back(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = torch.get_num_threads()
    assert run(["bench", spec, *QUICK, "--passes", "inference"]) == 0
    assert torch.get_num_threads() == before
    assert ", 1 thread on " in capsys.readouterr().out


def test_a_list_of_batch_sizes_sweeps(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run(["bench", spec, *QUICK, "--passes", "inference", "--batch-size", "2,4", "--format", "json"]) == 0
    )
    rows = document(capsys.readouterr().out)["results"]
    assert [row["batch_size"] for row in rows] == [2, 4]
    for row in rows:
        assert row["throughput_per_s"] == pytest.approx(row["batch_size"] / row["median_s"])


def test_a_size_that_cannot_be_allocated_ends_nothing(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = "2,1000000000000000,4"
    assert run(["bench", spec, *QUICK, "--passes", "step", "--batch-size", sizes]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "batch 1,000,000,000,000,000 pass" in text
    assert text.count("! there was not enough memory.") == 1


def test_the_result_is_written_to_a_file(
    spec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "out.json"
    assert run(["bench", spec, *QUICK, "--passes", "inference", "-o", str(file)]) == 0
    assert [row["name"] for row in document(file.read_text())["results"]] == ["small"]
    assert capsys.readouterr().out == ""


def test_a_block_that_cannot_be_run_shows_its_own_part_of_the_traceback(
    spec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text(BROKEN)
    assert run(["bench", str(broken), spec, *QUICK, "--passes", "inference"]) == 3
    out, err = capsys.readouterr()
    assert err.startswith(f'Error: {broken}:block could not be run\n  File "{broken}", line 4, in forward\n')
    assert err.endswith(
        "AttributeError: 'Tensor' object has no attribute 'no_such_thing'\n"
        f"Hint: rescli show {broken}:block names the layer, and --input gives the block another input\n"
    )
    assert "modules/module.py" not in err
    # The other target is there, and what was just said is not said again.
    assert f"{spec}:small\n" in out
    assert "no_such_thing" not in out


def test_a_document_says_itself_what_could_not_be_run(tmp_path: Path) -> None:
    broken, file = tmp_path / "broken.py", tmp_path / "out.json"
    broken.write_text(BROKEN)
    assert run(["bench", str(broken), *BRIEF, "-o", str(file)]) == 3
    ((warning,),) = [row["warnings"] for row in document(file.read_text())["results"]]
    assert warning["code"] == "failed"
    assert warning["message"].startswith("could not be run: AttributeError: 'Tensor' object has no attribute")


def test_a_layer_that_does_not_fit_is_named_without_pytorchs_part_of_the_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "wide.py"
    file.write_text(
        "block = ResidualSequential(Record(), nn.Linear(4, 4), Apply('concat'), nn.Linear(4, 4))\n"
    )
    assert run(["bench", str(file), *BRIEF]) == 3
    error, reason, place, hint = capsys.readouterr().err.splitlines()
    assert error == f"Error: {file}:block could not be run"
    assert reason == "RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x8 and 4x4)"
    assert place == "in a ResidualSequential, at '3': Linear"
    assert hint.startswith("Hint: rescli show ")


def test_traceback_shows_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text(BROKEN)
    assert run(["bench", str(broken), *QUICK, "--passes", "inference", "--traceback"]) == 3
    assert "modules/module.py" in capsys.readouterr().err


def test_the_quick_set_has_three_minutes_and_takes_less() -> None:
    defaults = inspect.signature(bench).parameters
    # Loading a target and what is measured of the machine take a second at most.
    assert len(quick_targets()) * (defaults["max_time"].default + 1) < 150


def test_bench_does_without_torchinfo(
    spec: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torchinfo", None)
    assert run(["bench", spec, *QUICK]) == 0
    assert capsys.readouterr().err == ""


def test_what_was_measured_before_an_interruption_is_printed_and_saved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stops = tmp_path / "stops.py"
    stops.write_text(STOPS)
    file = tmp_path / "out.json"
    arguments = ["bench", str(stops), "--passes", "inference", "--threads", "1", "--min-time", "5"]
    assert run([*arguments, "-o", str(file)]) == 130
    found = document(file.read_text())
    assert found["interrupted"] is True
    assert [(row["name"], row["samples"] > 0) for row in found["results"]] == [("first", True)]
    assert run(arguments) == 130
    assert "Interrupted: this is what was measured until then." in capsys.readouterr().out


def test_denormal_weights_are_told_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "tiny.py"
    file.write_text(SPEC + "nn.init.constant_(small.weight, 1e-41)\n")
    assert run(["bench", str(file), *QUICK]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "! 4,096 values are denormal (in weight): a CPU computes with them many times slower." in text
    assert "Hint: torch.set_flush_denormal(True) in the spec rounds them to zero." in text


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        (["--device", "cuda"], "--device cuda: ", "what is there: --device cpu"),
        (["--device", "cuda:1"], "--device cuda:1: ", "what is there: --device cpu"),
        (["--parallel", "dp"], "DataParallel spreads a batch over GPUs, and ", "rescli check-threads runs"),
        (
            ["--parallel", "dp", "--device", "cpu"],
            "DataParallel spreads a batch over GPUs, and ",
            "check-threads",
        ),
        (["--parallel", "dp", "--devices", "0,1"], "DataParallel spreads a batch over GPUs", "check-threads"),
    ],
)
def test_hardware_that_is_not_there_ends_with_4(
    spec: str, options: list[str], message: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bench", spec, *options]) == 4
    out, err = capsys.readouterr()
    assert message in err
    assert hint in err
    assert out == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--passes", "sideways"], "--passes sideways: 'sideways' is no pass"),
        (["--batch-size", "0"], "--batch-size 0: expected numbers from 1, joined by commas"),
        (["--batch-size", "8,"], "--batch-size 8,: expected numbers from 1, joined by commas"),
        (["--batch-size", "8", "--input", "8x64"], "--batch-size and --input were both given"),
        (["--parallel", "ring"], "--parallel ring: bench does not run that way"),
        (["--devices", "0,1"], "--devices belongs to --parallel dp or ddp"),
        (["--processes", "2"], "--processes belongs to --parallel ddp"),
        (["--parallel", "ddp", "--processes", "0"], "invalid value for '--processes'"),
        (["--parallel", "ddp", "--device", "mps"], "--parallel ddp --device mps: each process has a device"),
        (["--min-time", "5", "--max-time", "1"], "--min-time 5 --max-time 1: the least time is more than"),
        (["--min-time", "20"], "--min-time 20 --max-time 10: the least time is more than the most"),
        (["--device", "gpu"], "--device gpu: this is no device that rescli knows"),
        (["--format", "xml"], "--format xml: this command does not write that"),
        (["--max-time", "0"], "invalid value for '--max-time'"),
        (["--fail-above", "3"], "--fail-above belongs to --baseline"),
        (["--force"], "--force belongs to --baseline"),
        (["--compile", "--parallel", "dp"], "--compile and --parallel dp were both given"),
        (["--plot", "x.bmp"], "--plot x.bmp: the ending says no format that can be drawn"),
    ],
)
def test_a_wrong_command_line_ends_with_2(
    spec: str, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bench", spec, *options]) == 2
    assert message in capsys.readouterr().err


def test_a_target_that_is_missing_ends_with_3_and_the_others_are_measured(
    spec: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bench", "nowhere.py", spec, *QUICK, "--passes", "inference"]) == 3
    out, err = capsys.readouterr()
    assert "there is no file nowhere.py" in err
    assert f"{spec}:small" in out


def test_what_a_block_prints_is_not_in_the_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loud = tmp_path / "loud.py"
    loud.write_text(
        "class Loud(nn.Linear):\n    def forward(self, x):\n        print('hello')\n"
        "        return super().forward(x)\n\nblock = Loud(4, 4)\n"
    )
    assert run(["bench", str(loud), *QUICK, "--passes", "inference", "--format", "json"]) == 0
    out, err = capsys.readouterr()
    assert document(out)["results"][0]["name"] == "block"
    assert "hello" in err


def test_help_offers_only_what_works_and_does_not_import_torch() -> None:
    code = (
        "import sys; from rescli.cli.app import run; run(['bench', '--help']); "
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    for option in (
        "--batch-size",
        "--passes",
        "--parallel",
        "--max-time",
        "--device",
        "--threads",
        "--dtype",
        "--versus",
        "--compile",
        "--baseline",
        "--save",
        "--amp",
        "--processes",
        "--plot",
        "ddp",
        "csv",
    ):
        assert option in done.stdout


# Versus


def rows_of(text: str) -> list[Any]:
    rows: list[Any] = document(text)["results"]
    return rows


def test_plain_is_measured_beside_the_block_and_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "spec.py"
    path.write_text(
        "class Slow(nn.Module):\n    def forward(self, x):\n        return x @ x.T @ x\n\n"
        "block = ResidualSequential(Record(), nn.ReLU(), Apply(projection=Slow()))\n"
        "example_inputs = (256, 256)\n"
    )
    options = [*QUICK, "--passes", "inference", "--format", "json"]
    assert run(["bench", str(path), "--versus", "plain", *options]) == 0
    found = document(capsys.readouterr().out)
    assert [(row["variant"], row["target"]) for row in found["results"]] == [
        ("block", f"{path}:block"),
        ("plain", f"{path}:block"),
    ]
    (comparison,) = found["comparisons"]
    assert (comparison["a"], comparison["b"]) == (f"{path}:block", "plain")
    assert (comparison["pass"], comparison["batch_size"], comparison["paired"]) == ("inference", 256, True)
    # The two products are most of the work.
    assert comparison["ratio"] < 0.5
    assert comparison["ci95"][0] <= comparison["ratio"] <= comparison["ci95"][1]
    assert comparison["verdict"] == "faster"


def test_plain_that_cannot_run_is_rows_that_say_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "spec.py"
    path.write_text(
        "cat = ResidualSequential(Record(), nn.Linear(4, 4), Apply('concat'), nn.Linear(8, 4))\n"
        "none = nn.Linear(4, 4)\n"
    )
    assert run(["bench", str(path), "--versus", "plain", *QUICK, "--passes", "inference"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "! plain: without its skips the block cannot be run: RuntimeError: mat1 and mat2" in text
    assert "! plain: the block has neither Record nor Apply, so there is nothing to take out." in text
    assert "Hint: --versus TARGET compares it with another block." in text


def test_another_target_is_measured_on_the_same_input(
    spec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.py"
    other.write_text(
        "wide = nn.Sequential(nn.Linear(64, 2048), nn.Linear(2048, 64))\nexample_inputs = (8, 64)\n"
    )
    options = [*QUICK, "--passes", "inference", "--format", "json"]
    assert run(["bench", spec, "--versus", str(other), *options]) == 0
    found = document(capsys.readouterr().out)
    assert [(row["variant"], row["name"]) for row in found["results"]] == [
        ("block", "small"),
        ("versus", "wide"),
    ]
    (comparison,) = found["comparisons"]
    assert (comparison["a"], comparison["b"]) == (f"{spec}:small", f"{other}:wide")
    assert (comparison["verdict"], comparison["ratio"]) == ("slower", 2)
    # The other block gets the input of the first, so nothing is said of another one.
    assert [row["warnings"] for row in found["results"]] == [[], []]


def test_another_target_with_another_input_is_warned_of(
    spec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.py"
    other.write_text("wide = nn.Linear(64, 64)\nexample_inputs = (9, 64)\n")
    assert run(["bench", spec, "--versus", str(other), *QUICK, "--passes", "inference"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert f"! versus: {other}:wide runs on an input of its own, 9x64." in text


def test_a_versus_that_is_missing_or_fits_no_block_is_refused(
    spec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bench", spec, "--versus", "nowhere.py", *QUICK]) == 3
    assert "there is no file nowhere.py" in capsys.readouterr().err
    two = tmp_path / "two.py"
    two.write_text("a = nn.Linear(64, 64)\nb = nn.Linear(64, 64)\n")
    assert run(["bench", spec, "--versus", str(two), *QUICK]) == 2
    err = capsys.readouterr().err
    assert f"--versus {two} has the blocks a, b, none of them named small" in err
    assert f"Hint: name the one that is meant: --versus {two}:a" in err


# Modes


def test_modes_are_written_into_the_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "conv.py"
    path.write_text("conv = nn.Conv2d(3, 4, 3)\nexample_inputs = (2, 3, 8, 8)\n")
    options = [*QUICK, "--passes", "inference", "--format", "json", "--amp", "--channels-last"]
    assert run(["bench", str(path), *options]) == 0
    (row,) = rows_of(capsys.readouterr().out)
    assert (row["autocast_dtype"], row["channels_last"], row["compiled"]) == ("bfloat16", True, False)
    assert row["dtype"] == "float32"
    assert row["warnings"] == [] or row["samples"] > 0


def test_channels_last_without_images_is_warned_of(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", spec, *QUICK, "--passes", "inference", "--channels-last"]) == 0
    assert "! --channels-last changes nothing" in capsys.readouterr().out


# Baselines


BRIEF = [*QUICK, "--passes", "inference"]


def saved_by(spec: str, file: Path, *options: str) -> Any:  # noqa: ANN401 - JSON is what it is
    assert run(["bench", spec, *BRIEF, "--save", str(file), *options]) == 0
    return document(file.read_text())


def scale_samples(file: Path, factor: float) -> None:
    found = document(file.read_text())
    for row in found["results"]:
        row["samples_s"] = [factor * sample for sample in row["samples_s"]]
    file.write_text(json.dumps(found))


def test_a_saved_run_is_a_baseline(spec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "base.json"
    (row,) = saved_by(spec, file)["results"]
    assert len(row["samples_s"]) == row["samples"] >= 1
    # Ten times as long before, then a tenth: whatever the machine does meanwhile.
    scale_samples(file, 10)
    capsys.readouterr()
    options = [*BRIEF, "--baseline", str(file)]
    assert run(["bench", spec, *options]) == 0
    out, err = capsys.readouterr()
    assert "× baseline" in out
    assert err == ""
    scale_samples(file, 0.01)
    assert run(["bench", spec, *options, "--format", "json"]) == 1
    out, err = capsys.readouterr()
    (comparison,) = document(out)["comparisons"]
    assert (comparison["a"], comparison["b"]) == (str(file), f"{spec}:small")
    assert (comparison["verdict"], comparison["paired"], comparison["margin"]) == ("slower", False, 0.05)
    assert f"Regression: inference of {spec}:small, batch 8, takes " in err
    assert "allowed are 1.050." in err
    assert run(["bench", spec, *options, "--fail-above", "100000"]) == 0


def test_a_baseline_of_another_machine_ends_with_5_unless_forced(
    spec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "base.json"
    found = saved_by(spec, file)
    found["environment"]["cpu"] = "Other CPU"
    found["environment"]["threads"] = 7
    file.write_text(json.dumps(found))
    capsys.readouterr()
    options = [*BRIEF, "--baseline", str(file), "--fail-above", "100000"]
    assert run(["bench", spec, *options]) == 5
    out, err = capsys.readouterr()
    assert out == ""
    assert "cpu was Other CPU and is " in err
    assert "threads was 7 and is 1" in err
    assert "--force compares all the same" in err
    assert run(["bench", spec, *options, "--force"]) == 0


def test_a_baseline_of_another_type_ends_with_5_unless_forced(
    spec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "base.json"
    saved_by(spec, file, "--dtype", "float64")
    capsys.readouterr()
    options = [*BRIEF, "--baseline", str(file), "--fail-above", "100000"]
    assert run(["bench", spec, *options]) == 5
    assert f"dtype of {spec}:small was float64 and is float32" in capsys.readouterr().err
    assert run(["bench", spec, *options, "--force"]) == 0
    assert "× baseline" in capsys.readouterr().out


def test_a_baseline_that_holds_nothing_of_it_ends_with_5(
    spec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "base.json"
    saved_by(spec, file)
    assert run(["bench", spec, *QUICK, "--passes", "forward", "--baseline", str(file)]) == 5
    assert f"--baseline {file} holds none of what was measured" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot read --baseline"),
        ("no json", "is no JSON document"),
        ("[]", "is no saved benchmark (expected schema rescli.bench/1 with samples)"),
        ('{"schema": "rescli.show/1"}', "is no saved benchmark"),
    ],
)
def test_a_file_that_is_no_baseline_ends_with_5_before_anything_runs(
    spec: str, tmp_path: Path, text: str | None, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "base.json"
    if text is not None:
        file.write_text(text)
    assert run(["bench", spec, "--baseline", str(file)]) == 5
    out, err = capsys.readouterr()
    assert message in err
    assert out == ""


def test_a_json_result_has_no_samples_and_is_no_baseline(
    spec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "out.json"
    assert run(["bench", spec, *QUICK, "--passes", "inference", "-o", str(file)]) == 0
    assert run(["bench", spec, "--baseline", str(file)]) == 5
    assert "--format json leaves the samples out" in capsys.readouterr().err


def test_a_file_that_cannot_be_saved_is_told_before_anything_runs(
    spec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bench", spec, "--save", str(tmp_path / "no" / "base.json")]) == 5
    assert "there is no folder" in capsys.readouterr().err


def test_what_was_measured_before_an_interruption_is_saved(tmp_path: Path) -> None:
    stops = tmp_path / "stops.py"
    stops.write_text(STOPS)
    file = tmp_path / "base.json"
    options = ["--passes", "inference", "--threads", "1", "--min-time", "5", "--save", str(file)]
    assert run(["bench", str(stops), *options]) == 130
    found = document(file.read_text())
    assert found["interrupted"] is True
    assert [len(row["samples_s"]) > 0 for row in found["results"]] == [True]


# Formats


def test_csv_and_markdown_follow_the_ending_of_the_file(spec: str, tmp_path: Path) -> None:
    for ending, start in (
        ("csv", "name,target,variant,"),
        ("md", f"**`{spec}:small`** cpu, float32, batch 8\n"),
    ):
        file = tmp_path / f"out.{ending}"
        assert run(["bench", spec, *QUICK, "--passes", "inference", "-o", str(file)]) == 0
        assert file.read_text().startswith(start)


def test_a_plot_without_matplotlib_says_what_to_type(
    spec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rescli.cli.bench_values.find_spec", lambda _name: None)
    assert run(["bench", spec, "--plot", str(tmp_path / "out.png")]) == 2
    out, err = capsys.readouterr()
    assert err == (
        "Error: --plot needs matplotlib, which is not installed\nHint: pip install 'rescli[plot]'\n"
    )
    assert out == ""


def test_a_plot_that_cannot_be_written_is_told_before_anything_runs(
    spec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rescli.cli.bench_values.find_spec", lambda _name: object())
    assert run(["bench", spec, "--plot", str(tmp_path / "no" / "out.svg")]) == 5
    assert "there is no folder" in capsys.readouterr().err


def test_a_plot_is_drawn_beside_the_table(
    spec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib", reason="the extra plot is not installed")
    file = tmp_path / "out.SVG"
    assert run(["bench", spec, *BRIEF, "--plot", str(file)]) == 0
    assert f"<!-- {spec}:small -->" in file.read_text(encoding="utf-8")
    assert "inference" in capsys.readouterr().out


@pytest.mark.cuda
@pytest.mark.parametrize("options", [["--device", "cuda"], ["--parallel", "dp"]])
def test_a_gpu_gives_device_time_wall_time_and_memory(
    spec: str, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bench", spec, *options, "--max-time", "2", "--format", "json"]) == 0
    rows = document(capsys.readouterr().out)["results"]
    assert {row["device"].partition(",")[0] for row in rows} == {"cuda:0"}
    inference, _, _, step = rows
    assert inference["wall_median_s"] > 0
    assert step["peak_memory_bytes"] > inference["peak_memory_bytes"] >= 8 * 64 * 4
    assert [row["retained_bytes"] for row in rows] == [0] * 4
