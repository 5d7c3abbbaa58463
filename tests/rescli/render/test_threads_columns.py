from __future__ import annotations

from rescli.render.threads_columns import HandOver, draw_columns, hand_overs, step_text
from rescli.threads.result import Failure, Point, Step, Wrong


def passed(thread: str, number: int, *, hands_over: bool = False) -> Step:
    return Step(thread, Point("entry", str(number), "ReLU"), hands_over=hands_over)


STEPS = (
    passed("A", 0, hands_over=True),
    passed("B", 0, hands_over=True),
    *(passed("C", number) for number in range(6)),
    Step("C", None),
    Step("A", None),
    Step("B", None),
)
FAILURE = Failure((Wrong("C", "output", "1", "2"),), STEPS)


def test_a_step_is_named_after_its_point() -> None:
    assert step_text(passed("A", 3)) == "entry of 3 ReLU"
    assert step_text(Step("A", Point("exit", "", "Sequential"))) == "exit of Sequential"
    assert step_text(Step("A", None)) == "end"


def test_a_hand_over_lies_between_two_points_of_the_same_thread() -> None:
    assert hand_overs(STEPS) == (
        HandOver("A", "B", "entry of 0 ReLU", "end"),
        HandOver("B", "C", "entry of 0 ReLU", "end"),
    )


def test_three_threads_are_three_columns() -> None:
    assert draw_columns(FAILURE, ascii_only=True) == [
        "A                B                C",
        "entry of 0 ReLU",
        "---------------->",
        "                 entry of 0 ReLU",
        "                 ---------------->",
        "                                  entry of 0 ReLU",
        "                                  (4 more)",
        "                                  entry of 5 ReLU",
        "                                  end, wrong",
        "<---------------------------------",
        "end",
        "---------------->",
        "                 end",
    ]


def test_arrows_are_drawn_as_lines_where_the_stream_can_show_them() -> None:
    lines = draw_columns(FAILURE)
    assert lines[2] == "────────────────→"
    assert lines[9] == "←─────────────────────────────────"


def test_threads_that_do_not_fit_side_by_side_are_told_apart_by_their_letter() -> None:
    lines = draw_columns(FAILURE, width=40)
    assert lines[:3] == ["A  entry of 0 ReLU", "B  entry of 0 ReLU", "C  entry of 0 ReLU"]
    assert lines[-3:] == ["C  end, wrong", "A  end", "B  end"]


def test_one_step_is_never_left_out_alone() -> None:
    steps = (*(passed("A", number) for number in range(3)), Step("A", None))
    assert draw_columns(Failure((), steps))[1:] == [
        "entry of 0 ReLU",
        "entry of 1 ReLU",
        "entry of 2 ReLU",
        "end",
    ]


def lines_of(file: str, *, ascii_only: bool, width: int = 100) -> list[str]:
    def step(thread: str, number: int, *, hands_over: bool = False) -> Step:
        point = Point("line", "", "forward", file=file, line=number, source="self.größe = x")
        return Step(thread, point, hands_over=hands_over)

    steps = (step("A", 7, hands_over=True), step("B", 7), Step("B", None), Step("A", None))
    return draw_columns(Failure((), steps), ascii_only=ascii_only, width=width)


def test_names_that_ascii_cannot_show_become_escapes_in_columns_that_still_fit() -> None:
    assert lines_of("größe.py", ascii_only=True) == [
        "A                        B",
        "before gr\\xf6\\xdfe.py:7",
        "------------------------>",
        "                         before gr\\xf6\\xdfe.py:7",
        "                         end",
        "<------------------------",
        "end",
    ]


def test_characters_of_two_columns_are_counted_as_two() -> None:
    lines = lines_of("网络.py", ascii_only=False)
    assert lines[1:4] == ["before 网络.py:7", "─────────────────→", "                  before 网络.py:7"]


def test_what_a_terminal_would_obey_is_shown_as_an_escape() -> None:
    assert lines_of("a\tb.py", ascii_only=False)[1] == "before a\\tb.py:7"


def test_two_columns_fit_on_a_page_of_60_or_are_told_apart_by_their_letter() -> None:
    assert lines_of("net.py", ascii_only=True, width=60)[0].split() == ["A", "B"]
    assert max(map(len, lines_of("net.py", ascii_only=True, width=60))) <= 60
    long = "a_module_with_a_long_name_of_its_own.py"
    assert lines_of(long, ascii_only=True, width=60)[:2] == [f"A  before {long}:7", f"B  before {long}:7"]
