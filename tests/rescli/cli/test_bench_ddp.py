from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema  # type: ignore[import-untyped] # it brings no types
import pytest
import torch
import torch.distributed as dist
import typer

from rescli.bench.failure import FailedAloneError, SilentPeersError, describe_failure
from rescli.bench.place import Place
from rescli.cli import bench_group
from rescli.cli.app import run
from rescli.cli.bench_group import Member, membership
from rescli.cli.console import write_note, write_result
from rescli.errors import SpecError
from tests.rescli.bench.paper_time import paper_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SCHEMA = json.loads((Path(__file__).parents[3] / "docs/schema/bench-1.json").read_text())
# The size of the projection is not known before a first call, which copies for several processes cannot make.
UNSETTLED = """
class Halve(nn.Module):
    def forward(self, x):
        return x[..., :32]

block = ResidualSequential(
    nn.BatchNorm1d(64), Record(need_projection=True), nn.Linear(64, 64), Halve(), Apply()
)
example_inputs = (8, 64)
"""
BROKEN = """
class Broken(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 64)

    def forward(self, x):
        return self.layer(x).no_such_thing()

block = Broken()
example_inputs = (8, 64)
"""
STOPS = """
class Stops(nn.Linear):
    calls = 0

    def forward(self, x):
        Stops.calls += 1
        if Stops.calls == 1000:
            raise KeyboardInterrupt
        return super().forward(x)

block = Stops(64, 64)
example_inputs = (8, 64)
"""


def document(path: Path) -> Any:  # noqa: ANN401 - JSON is what it is
    found = json.loads(path.read_text())
    jsonschema.validate(found, SCHEMA)
    return found


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


# In real processes


def test_two_processes_share_a_batch_and_are_compared_with_one(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    good, broken = write(tmp_path / "good.py", UNSETTLED), write(tmp_path / "broken.py", BROKEN)
    file = tmp_path / "out.json"
    options = [
        "--processes",
        "2",
        "--device",
        "cpu",
        "--passes",
        "step",
        "--max-time",
        "2",
        "--min-time",
        "0",
    ]
    assert run(["bench", good, broken, "--parallel", "ddp", *options, "-o", str(file)]) == 3
    found = document(file)
    rows = {row["variant"]: row for row in found["results"] if row["target"] == f"{good}:block"}
    assert {name: (row["parallel"], row["workers"]) for name, row in rows.items()} == {
        "block": ("ddp", 2),
        "single": ("none", 1),
    }
    assert [row["batch_size"] for row in rows.values()] == [8, 8]
    # Of the whole batch, wherever it is computed.
    assert rows["block"]["flops"] == rows["single"]["flops"] > 0
    assert rows["block"]["samples"] > 0
    assert rows["single"]["retained_bytes"] == 0
    # DDP itself keeps the last messages with buffers, 512 bytes here, in one process or both.
    assert rows["block"]["retained_bytes"] <= 1024
    (comparison,) = found["comparisons"]
    assert (comparison["kind"], comparison["b"], comparison["workers"]) == ("scaling", "single", 2)
    assert comparison["efficiency"] == pytest.approx(comparison["ratio"] / 2)
    # Both processes fail, and one of them says so; nothing else is said, by no library either.
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("AttributeError") == 1
    assert err.startswith(f'Error: {broken}:block could not be run\n  File "{broken}", line 8, in forward\n')
    assert "AttributeError: 'Tensor' object has no attribute 'no_such_thing'\nHint: " in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--input", "8xa"], "--input 8xa"),
        (["--set", "nothing"], "--set nothing"),
        (["--devices", "0"], "--devices 0"),
    ],
)
def test_what_is_wrong_with_the_command_line_is_told_before_processes_start(
    options: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("rescli.bench.launch.launch", lambda *_, **__: 1 // 0)
    good = write(tmp_path / "good.py", UNSETTLED)
    assert run(["bench", good, "--parallel", "ddp", "--device", "cpu", *options]) in (2, 4)
    assert message in capsys.readouterr().err


# In a group of one, on paper


@pytest.fixture
def alone_in_a_group(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Be the only process of a group, as torchrun would have it, and let the layers move the clock."""
    told = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    for name, value in (told | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo" if sys.platform == "linux" else "lo0")
    for _ in paper_time(monkeypatch):
        yield
    assert not dist.is_initialized()


DDP = ["--parallel", "ddp", "--device", "cpu", "--threads", "1", "--min-time", "0"]


@pytest.mark.usefixtures("alone_in_a_group")
def test_a_command_that_a_launcher_has_started_joins_its_group(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = write(tmp_path / "good.py", UNSETTLED)
    assert run(["bench", good, *DDP, "--passes", "step", "--versus", "plain"]) == 0
    out, err = capsys.readouterr()
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "DDP in 1 process on cpu, float32, batch 8" in lines
    assert "pass form median × block speed-up, efficiency" in lines
    block = next(line for line in lines if line.startswith("step block"))
    assert block.endswith("1.000 (1.000–1.000), 100%")
    assert err == ""


@pytest.mark.usefixtures("alone_in_a_group")
def test_an_interrupted_group_prints_and_saves_what_it_has(tmp_path: Path) -> None:
    stops, file = write(tmp_path / "stops.py", STOPS), tmp_path / "saved.json"
    before = signal.getsignal(signal.SIGINT)
    options = [*DDP[:-1], "5", "--passes", "inference", "--save", str(file)]
    assert run(["bench", stops, *options]) == 130
    found = document(file)
    assert (found["interrupted"], found["results"][0]["samples"] > 0) == (True, True)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.usefixtures("alone_in_a_group")
def test_a_launcher_that_has_started_another_number_is_told_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = write(tmp_path / "good.py", UNSETTLED)
    assert run(["bench", good, *DDP, "--processes", "3"]) == 2
    err = capsys.readouterr().err
    assert "--processes 3: a launcher has started this command in 1 processes" in err
    assert "Hint: leave --processes out, or run rescli without torchrun" in err


# Who speaks


class Others:
    """Peers of which the first one ends with a code, or says nothing."""

    def __init__(self, place: Place, code: int | None) -> None:
        self.place = place
        self.code = code

    def exchange(self, message: object, **_patience: object) -> list[object]:
        if self.code is None:
            raise SilentPeersError("nobody there")
        return [self.code, message]


@pytest.fixture
def second_of_two(monkeypatch: pytest.MonkeyPatch) -> Callable[[int | None], Any]:
    monkeypatch.setattr(bench_group, "_LAUNCHER_IS_QUICKER_THAN_S", 0.0)

    def member(code: int | None) -> Any:  # noqa: ANN401 - a context manager
        place = Place(1, 2, 1, 2)
        monkeypatch.setattr("rescli.bench.peers.join", lambda *_: Others(place, code))
        return membership(place, torch.device("cpu"))

    return member


def fail(member: Member) -> None:
    """Do what a command does whose spec is broken."""
    assert not member.reports
    write_result("a table", None)
    write_note("Error: the spec is broken")
    raise typer.Exit(3)


def test_the_second_process_is_silent_where_the_first_ends_alike(
    second_of_two: Callable[[int | None], Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as ended, second_of_two(3) as member:
        fail(member)
    # The first one's code is the one that counts.
    assert ended.value.exit_code == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("first", [0, None])
def test_the_second_process_speaks_if_it_alone_knows_what_is_wrong(
    first: int | None, second_of_two: Callable[[int | None], Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as ended, second_of_two(first) as member:
        fail(member)
    assert ended.value.exit_code == 3
    assert capsys.readouterr().err == "Error: the spec is broken\n"


def test_a_process_that_failed_alone_shows_the_users_part_of_the_traceback(
    second_of_two: Callable[[int | None], Any],
) -> None:
    try:
        int("seven")
    except ValueError as error:
        failure = describe_failure(error)
    with pytest.raises(SpecError) as caught, second_of_two(None):
        raise FailedAloneError(failure)
    assert caught.value.message == "a block could not be run in process 1 of 2, and the others wait for it"
    assert "test_bench_ddp.py" in caught.value.details
    assert caught.value.details.endswith("ValueError: invalid literal for int() with base 10: 'seven'")


def test_a_process_that_is_left_alone_says_so(second_of_two: Callable[[int | None], Any]) -> None:
    with (
        pytest.raises(SpecError, match="process 1 of 2 hears nothing of the others"),
        second_of_two(None),
    ):
        raise SilentPeersError("gone")
