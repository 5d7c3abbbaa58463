"""``rescli check-threads`` from the outside: what is printed, and with which code it ends."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import rescli.cli.commands.check_threads as command
from rescli.threads.limits import SCENARIOS
from rescli.threads.schedule import MAX_THREADS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.rescli.cli.conftest import RunRescli

HEAD = """
class TwoLayers(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)

"""
KEEPS = """
class Keeps(TwoLayers):
    def forward(self, x):
        self.kept = x.mean(0)
        return self.second(self.first(x)) + self.kept

"""
# What is printed of it is the same on every machine.
TELLS = """
class Tells(TwoLayers):
    def forward(self, x):
        self.kept = x
        out = self.second(self.first(x))
        if self.kept is not x:
            raise RuntimeError("this is another thread's input")
        return out

"""
COUNTS = """
class Counts(TwoLayers):
    calls = 0

    def forward(self, x):
        self.calls += 1
        print("called")
        return self.second(self.first(x))

"""
SCHEDULES = ("--scenario", "shared,replicas", "--random", "0", "--points", "layers")


def write(body: str, name: str = "net.py") -> None:
    Path(name).write_text(HEAD + textwrap.dedent(body), encoding="utf-8")


@pytest.fixture
def keeps(rescli: RunRescli) -> str:  # noqa: ARG001 - it makes the folder that the spec is written to
    write(f"{KEEPS}\nexample_inputs = (8, 4)\nblock = Keeps()\n")
    return "net.py"


def rows(text: str) -> list[dict[str, object]]:
    found = json.loads(text)
    assert found["schema"] == "rescli.threads/1"
    return list(found["results"])


def test_a_race_ends_with_1_and_a_schedule_that_fails_in_every_replay(rescli: RunRescli, keeps: str) -> None:
    ended = rescli("check-threads", keeps, "--format", "json")
    assert (ended.code, ended.err) == (1, "")
    found = {row["scenario"]: row for row in rows(ended.out)}
    assert tuple(found) == tuple(SCENARIOS)
    del found["stress"]  # found by luck, or not
    assert {name: row["status"] for name, row in found.items()} == {
        "state": "warn",
        "shared": "fail",
        "replicas": "pass",
        "dataparallel": "skip",
        "nested": "warn",
        "lazy": "skip",
        "copies": "fail",
        "exception": "fail",
        "batchnorm": "skip",
    }
    shared = found["shared"]
    assert (shared["runs"], shared["wrong"], shared["bound"], shared["threads"]) == (62, 48, 2, 2)
    assert (shared["target"], shared["name"]) == ("net.py:block", "block")
    assert shared["schedule"] == "shared:A1,B,A"
    for _ in range(3):
        again = rescli("check-threads", keeps, "--replay", "shared:A1,B,A", "--format", "json")
        (row,) = rows(again.out)
        assert (again.code, row["status"], row["runs"], row["wrong"]) == (1, "fail", 1, 1)
        assert row["failure"] == shared["failure"]


def test_the_report_can_be_read_and_its_command_repeats_it(
    rescli: RunRescli, golden: Callable[[str, str], None]
) -> None:
    write(f"{TELLS}\nexample_inputs = (8, 4)\nblock = Tells()\n")
    ended = rescli("check-threads", "net.py", "--seed", "3", *SCHEDULES)
    assert ended.code == 1
    golden("check_threads.txt", ended.out)
    (replay,) = [line for line in ended.out.splitlines() if "Replay:" in line]
    arguments = replay.split("rescli ")[1].split()
    assert arguments == [
        *("check-threads", "net.py:block", "--replay", "shared:A1,B,A", "--seed", "3"),
    ]
    again = rescli(*arguments)
    assert again.code == 1
    golden("check_threads_replay.txt", again.out)


def test_without_preemptions_the_race_is_not_found(rescli: RunRescli, keeps: str) -> None:
    ended = rescli("check-threads", keeps, *SCHEDULES, "--preemptions", "0", "--format", "json")
    assert ended.code == 0
    assert [(row["status"], row["bound"], row["runs"]) for row in rows(ended.out)] == [("pass", 0, 2)] * 2


def test_a_harmless_module_ends_with_0_and_its_prints_stay_out_of_the_result(rescli: RunRescli) -> None:
    write(f"{COUNTS}\nexample_inputs = (8, 4)\nblock = Counts()\n")
    ended = rescli("check-threads", "net.py", "--schedules", "20", "--format", "json")
    assert ended.code == 0
    found = {row["scenario"]: row["status"] for row in rows(ended.out)}
    assert [name for name, status in found.items() if status == "pass"] == [
        *("shared", "replicas", "nested", "copies", "exception", "stress"),
    ]
    assert found["state"] == "warn"
    # Threads print at the same time: a line may be torn, but every word comes from the module.
    assert "called" in ended.err
    assert ended.err.replace("called", "").strip() == ""


@pytest.mark.parametrize("name", ["basic", "projection"])
def test_our_own_blocks_pass(rescli: RunRescli, name: str) -> None:
    ended = rescli("check-threads", name, "--schedules", "6", "--max-time", "60", "--format", "json")
    assert (ended.code, ended.err) == (0, "")
    found = {row["scenario"]: row["status"] for row in rows(ended.out)}
    skipped = [scenario for scenario, status in found.items() if status == "skip"]
    assert skipped == ["dataparallel", "lazy", "batchnorm"]
    assert [status for status in found.values() if status != "skip"] == ["pass"] * 7


def test_a_module_with_record_and_apply_hands_over_at_them_too(rescli: RunRescli) -> None:
    Path("net.py").write_text(
        'block = ResidualSequential(Record("r"), nn.Linear(4, 4), Apply(record_name="r"))\n'.replace(
            '"r")', 'name="r")', 1
        ),
        encoding="utf-8",
    )
    ended = rescli("check-threads", "net.py", *SCHEDULES[:1], "shared", *SCHEDULES[2:], "--format", "json")
    (row,) = rows(ended.out)
    # Entry and exit of three layers, and the end of forward.
    assert (ended.code, row["status"], row["points"], row["runs"]) == (0, "pass", 7, 114)


def test_every_target_and_every_block_is_checked(rescli: RunRescli) -> None:
    write("example_inputs = (8, 4)\none = nn.Sequential(nn.Linear(4, 4))\ntwo = nn.Sequential(nn.ReLU())\n")
    write("example_inputs = (8, 4)\nthree = nn.Sequential(nn.Linear(4, 4))\n", "other.py")
    ended = rescli("check-threads", "net.py", "other.py", "--scenario", "state", "--format", "json")
    assert [row["target"] for row in rows(ended.out)] == ["net.py:one", "net.py:two", "other.py:three"]


def test_without_a_target_the_quick_set_is_taken(rescli: RunRescli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rescli.cli.targets.quick_targets", lambda: ("basic", "concat"))
    ended = rescli("check-threads", "--scenario", "state", "--format", "json")
    assert [row["target"] for row in rows(ended.out)] == ["shipped:basic", "shipped:concat"]


def test_scenarios_are_repeated_or_joined_and_run_in_their_own_order(rescli: RunRescli, keeps: str) -> None:
    for names in (("--scenario", "replicas,state"), ("--scenario", "replicas", "--scenario", "state")):
        ended = rescli("check-threads", keeps, *names, "--format", "json")
        assert (ended.code, [row["scenario"] for row in rows(ended.out)]) == (0, ["state", "replicas"])


def test_options_reach_the_check(rescli: RunRescli, keeps: str) -> None:
    ended = rescli(
        *("check-threads", keeps, "--scenario", "shared,stress", "--format", "json"),
        *("--threads", "3", "--iterations", "2", "--schedules", "11", "--preemptions", "1"),
    )
    shared, stress = rows(ended.out)
    assert (shared["threads"], shared["runs"], shared["bound"]) == (3, 11, 1)
    assert (stress["threads"], stress["runs"], stress["bound"]) == (3, 6, None)


def test_no_time_is_no_pass(rescli: RunRescli, keeps: str) -> None:
    ended = rescli("check-threads", keeps, "--scenario", "shared", "--max-time", "0.001", "--format", "json")
    (row,) = rows(ended.out)
    assert (ended.code, row["status"], row["runs"]) == (0, "skip", 0)


def test_the_result_is_written_to_a_file_in_the_format_of_its_ending(rescli: RunRescli, keeps: str) -> None:
    ended = rescli("check-threads", keeps, "--scenario", "state", "-o", "found.json")
    assert (ended.code, ended.out) == (0, "")
    (row,) = rows(Path("found.json").read_text(encoding="utf-8"))
    assert row["changed"] == ["kept"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--scenario", "idle"),
            "--scenario idle: there is no such scenario\nHint: one of state, shared, replicas, dataparallel, ",
        ),
        (
            ("--scenario", "shared,"),
            "--scenario : there is no such scenario\nHint: one of state, shared, replicas, dataparallel, ",
        ),
        (("--replay", "A1,B,A"), "--replay A1,B,A: this is no schedule"),
        (
            ("--replay", "stress:A1,B,A"),
            "--replay stress:A1,B,A: stress is no scenario with schedules\nHint: one of shared, replicas, ",
        ),
        # What it would say of the turns is beside the point.
        (
            ("--replay", "stress:A"),
            "--replay stress:A: stress is no scenario with schedules\nHint: one of shared,",
        ),
        (
            ("--replay", "idle.lines:A1,B,A"),
            "--replay idle.lines:A1,B,A: idle is no scenario with schedules\n",
        ),
        (
            ("--replay", "shared:A1,B,A", "--scenario", "replicas"),
            "--replay shared:A1,B,A belongs to the scenario shared, --scenario says replicas",
        ),
        (
            ("--replay", "shared:A1,B,A", "--threads", "3"),
            "--replay shared:A1,B,A has 2 threads, --threads says 3",
        ),
        (
            ("--replay", "shared:A1,B,A", "other.py"),
            "--replay needs the one TARGET that the schedule was printed for, not 2",
        ),
        (
            ("--replay", "shared:A99,B,A"),
            "--replay shared:A99,B,A: thread A passes only 5 points in net.py:block",
        ),
        (("--threads", str(MAX_THREADS + 1)), "invalid value for '--threads'"),
        (("--threads", "1"), "invalid value for '--threads'"),
        (("--points", "words"), "--points words: there is no such place\nHint: one of layers, lines"),
        (
            ("--replay", "shared.lines:A99,B,A"),
            "--replay shared.lines:A99,B,A: thread A passes only 3 points in net.py:block",
        ),
        (("--format", "csv"), "--format csv: this command does not write that"),
        (("--all",), "--all and a TARGET were both given"),
    ],
)
def test_a_wrong_command_line_ends_with_2_and_says_what_is_right(
    rescli: RunRescli, keeps: str, arguments: tuple[str, ...], message: str
) -> None:
    ended = rescli("check-threads", keeps, *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"Error: {message}")


def test_a_gpu_is_refused_with_4(rescli: RunRescli, keeps: str) -> None:
    ended = rescli("check-threads", keeps, "--device", "cuda")
    assert (ended.code, ended.out) == (4, "")
    assert ended.err == "Error: --device cuda: check-threads runs on the CPU\nHint: leave --device away\n"


def test_a_spec_that_fails_alone_ends_with_3_and_shows_its_line_and_the_others_go_on(
    rescli: RunRescli,
) -> None:
    write(
        """
        class Refuses(TwoLayers):
            def forward(self, x):
                raise ValueError("not today")

        example_inputs = (8, 4)
        refuses = Refuses()
        plain = nn.Sequential(nn.Linear(4, 4))
        """
    )
    ended = rescli("check-threads", "net.py", "--scenario", "shared", "--format", "json")
    assert ended.code == 3
    assert "Error: net.py:refuses could not be run, not even in a single thread" in ended.err
    assert 'raise ValueError("not today")' in ended.err
    assert "rescli/threads" not in ended.err
    assert [row["target"] for row in rows(ended.out)] == ["net.py:plain"]


def test_what_was_checked_before_ctrl_c_is_printed(
    rescli: RunRescli, keeps: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rescli.threads.scheduled.select_schedules", interrupted)
    ended = rescli("check-threads", keeps, "--format", "json")
    assert ended.code == 130
    assert [row["scenario"] for row in rows(ended.out)] == ["state"]


def test_the_help_says_what_the_defaults_are(rescli: RunRescli) -> None:
    ended = rescli("check-threads", "--help")
    assert ended.code == 0
    defaults = command._DEFAULTS
    for text in (
        "--replay SCHEDULE",
        f"[default: {defaults.schedules};",
        f"default: {defaults.threads}, of lazy, exception, stress {defaults.many_threads}",
        f"[default: {defaults.random_schedules};",
        "--points WHERE",
    ):
        assert text in " ".join(ended.out.split())


MAKES = """
class Makes(nn.Module):
    def __init__(self):
        super().__init__()
        self.made = None

    def forward(self, x):
        if self.made is None:
            self.made = nn.Linear(x.shape[-1], 4)
        return self.made(x)

"""


def test_a_layer_made_without_a_lock_is_found_between_lines_and_replays_from_what_is_printed(
    rescli: RunRescli, golden: Callable[[str, str], None]
) -> None:
    write(f"{MAKES}\nexample_inputs = (8, 4)\nblock = Makes()\n")
    ended = rescli("check-threads", "net.py", "--scenario", "shared", "--max-time", "60")
    assert ended.code == 1
    golden("check_threads_lines.txt", ended.out)
    (replay,) = [line for line in ended.out.splitlines() if "Replay:" in line]
    again = rescli(*replay.split("rescli ")[1].split(), "--format", "json")
    (row,) = rows(again.out)
    assert (again.code, row["status"], row["runs"], row["wrong"]) == (1, "fail", 1, 1)


def test_with_layers_alone_it_is_not(rescli: RunRescli) -> None:
    write(f"{MAKES}\nexample_inputs = (8, 4)\nblock = Makes()\n")
    ended = rescli("check-threads", "net.py", "--scenario", "shared", "--points", "layers")
    assert ended.code == 0
    assert "no layer runs in the thread that calls forward" in " ".join(ended.out.split())


def test_an_exception_in_one_of_four_threads_ends_with_1_and_is_shown(rescli: RunRescli) -> None:
    write(
        """
        class Raises(TwoLayers):
            def forward(self, x):
                if x.shape[0] == 10:
                    raise ValueError("ten is too many")
                return self.second(self.first(x))

        example_inputs = (8, 4)
        block = Raises()
        """
    )
    ended = rescli(
        "check-threads", "net.py", "--threads", "4", "--scenario", "exception", "--schedules", "30"
    )
    assert ended.code == 1
    text = " ".join(ended.out.split())
    assert (
        "fail exception thread C raises ValueError: ten is too many (net.py:12), also when it runs alone"
        in text
    )
    assert "the other threads: 10 of " in text
