from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rescli.render.threads_text import threads_text
from rescli.threads.result import Failure, Point, Status, Step, ThreadsResult, Wrong

if TYPE_CHECKING:
    from collections.abc import Callable

EXPLORED = "all 62 schedules {} (2 threads, 5 points each, at most 2 preemptions)"
LAYERS = (("first", "Linear"), ("second", "Linear"))


def steps_of(thread: str) -> list[Step]:
    points = [Point(event, path, kind) for path, kind in LAYERS for event in ("entry", "exit")]
    return [*(Step(thread, point) for point in (*points, Point("exit", "", "Keeps"))), Step(thread, None)]


def result(scenario: str, status: Status, detail: str, **facts: object) -> ThreadsResult:
    known: dict[str, object] = {
        "runs": 62,
        "wrong": 0,
        "bound": 2,
        "threads": 2,
        "points": 5,
        "schedules": 62,
        "schedule": None,
    }
    return ThreadsResult(
        name="keeps",
        target="net.py:keeps",
        scenario=scenario,
        status=status,
        detail=detail,
        **(known | facts),  # type: ignore[arg-type] # each is named after its field
    )


WRONG = (
    Wrong("A", "output", "0.383352", "1.59796 (where it is worst; 128 of 128 values differ)"),
    Wrong("A", "gradient of input 0", "0.134854", "0.678593 (where it is worst; 128 of 128 values differ)"),
    *(Wrong("A", f"gradient of layer {index}", "1", "2") for index in range(6)),
)
A, B = steps_of("A"), steps_of("B")
SHARED = result(
    "shared",
    "fail",
    f"{WRONG[0].sentence}; {EXPLORED.format('tried, 48 wrong')}; run again 3 times, it failed 3 times",
    wrong=48,
    schedule="shared:A1,B3,A,B",
    failure=Failure(
        WRONG, (replace(A[0], hands_over=True), *B[:2], replace(B[2], hands_over=True), *A[1:], *B[3:])
    ),
)
SERIAL = result(
    "shared",
    "fail",
    "thread B: output is 2, alone it is 1 (without a hand-over: the result depends on the calls before it)",
    wrong=62,
    schedule="shared:A,B",
    failure=Failure((Wrong("B", "output", "2", "1"),), (*A, *B)),
)
ALL = (
    result("state", "warn", "forward writes to the module: kept", changed=("kept",)),
    SHARED,
    result("replicas", "pass", EXPLORED.format("right")),
    result(
        "stress",
        "fail",
        "thread B: output is 1, alone it is 2; 4 of 200 calls of 4 free threads wrong",
        failure=Failure((Wrong("B", "output", "1", "2"),)),
    ),
    replace(
        result("shared", "skip", "the module cannot be copied: TypeError: cannot pickle 'generator' object"),
        name="refuses",
        target="shipped:refuses",
    ),
)


def test_results_read_well_at_80_columns(golden: Callable[[str, str], None]) -> None:
    golden("threads_80.txt", threads_text(ALL))


def test_results_have_an_ascii_twin(golden: Callable[[str, str], None]) -> None:
    text = threads_text((SHARED,), ascii_only=True)
    assert text.isascii()
    golden("threads_ascii.txt", text)


@pytest.mark.parametrize("width", [60, 80])
def test_what_the_users_code_says_is_ascii_where_that_is_wanted_and_fits(width: int) -> None:
    wrong = Wrong("A", "exception", "ValueError: größer als 网络\x1b[31m", "no exception")
    step = Step("A", Point("line", "", "forward", "größe.py", 7, "self.größe = x"), hands_over=True)
    steps = (step, *B, *A[1:])
    shown = result(
        "shared",
        "fail",
        wrong.sentence,
        schedule="shared.lines:A1,B,A",
        failure=Failure((wrong, wrong), steps),
    )
    text = threads_text((shown,), ascii_only=True, width=width)
    assert text.isascii()
    for escaped in (
        r"gr\xf6\xdfer als",
        r"\u7f51\u7edc\x1b[31m",
        r"before gr\xf6\xdfe.py:7",
        r"(self.gr\xf6\xdfe = x)",
    ):
        assert escaped in " ".join(text.split())
    assert max(len(line) for line in text.splitlines() if "Replay:" not in line) <= width
    plain = threads_text((shown,), width=width)
    assert "größer als 网络\\x1b[31m" in " ".join(plain.split())


def test_on_a_narrow_page_each_step_begins_with_its_thread(golden: Callable[[str, str], None]) -> None:
    text = threads_text((SHARED,), width=44)
    assert "A  entry of first Linear" in text
    golden("threads_44.txt", text)


def test_a_failure_without_a_hand_over_is_called_that(golden: Callable[[str, str], None]) -> None:
    golden("threads_serial.txt", threads_text((SERIAL,)))


def test_statuses_are_coloured_where_that_is_wanted() -> None:
    plain, coloured = threads_text(ALL), threads_text(ALL, color=True)
    assert "\x1b[31;1mfail\x1b[0m  shared" in coloured
    assert "\x1b[32mpass\x1b[0m  replicas" in coloured
    assert "\x1b" not in plain
    for code in ("\x1b[31;1m", "\x1b[32m", "\x1b[33m", "\x1b[2m", "\x1b[0m"):
        coloured = coloured.replace(code, "")
    assert coloured == plain


def test_the_replay_repeats_the_options_that_decide_what_runs() -> None:
    options = ("--input", "8x16", "--set", "kind='tall one'", "--seed", "3")
    text = threads_text((SHARED,), options=options)
    assert (
        "Replay: rescli check-threads net.py:keeps --replay shared:A1,B3,A,B "
        "--input 8x16 --set 'kind='\"'\"'tall one'\"'\"'' --seed 3\n"
    ) in text


def test_the_replay_names_one_block_of_a_shipped_spec() -> None:
    text = threads_text((replace(SHARED, target="shipped:nested", name="outer"),))
    assert "Replay: rescli check-threads nested:outer --replay shared:A1,B3,A,B\n" in text


def test_nothing_checked_is_said() -> None:
    assert threads_text(()) == "nothing was checked\n"


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_page(width: int) -> None:
    lines = threads_text(ALL, width=width).splitlines()
    # The command is not folded: it is there to be copied.
    assert max(len(line) for line in lines if "Replay:" not in line) <= width
