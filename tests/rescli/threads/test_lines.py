from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn

import torchresidual
from rescli.threads.arrange import share
from rescli.threads.footing import Subject, settle_footing
from rescli.threads.lines import LineTracer, line_files
from rescli.threads.outcome import compare
from rescli.threads.schedule import parse_schedule
from tests.rescli.threads.planted import (
    ALL,
    HARMLESS,
    CachesShape,
    HooksInForward,
    KeepsByName,
    KeepsInput,
    KeepsMean,
    MakesLayer,
    check,
    example,
    replay,
)
from torchresidual.written import FILE_NAME

if TYPE_CHECKING:
    from collections.abc import Callable

    from rescli.threads.result import Point

HERE = str(Path(__file__))


class Bare(nn.Module):
    """Fault that no layer lies in: two lines of arithmetic."""

    def forward(self, x: Tensor) -> Tensor:
        self.kept = x.mean(0)
        return x + self.kept


def lines_of(work: Callable[[], object]) -> list[Point]:
    passed: list[Point] = []
    with LineTracer(frozenset({HERE}), passed.append).tracing():
        work()
    return passed


def writes_an_item(store: dict[str, int]) -> int:
    before = store.get("a", 0)
    store["a"] = before + 1
    return before


def changes_by_name(values: list[int]) -> int:
    first = values[0]
    values.append(first)
    return len(values)


def test_each_line_is_passed_before_it_runs_with_its_place_and_text() -> None:
    passed = lines_of(lambda: writes_an_item({}))
    own = [point for point in passed if point.type == "writes_an_item"]
    assert [point.source for point in own] == [
        'before = store.get("a", 0)',
        'store["a"] = before + 1',
        "return before",
    ]
    assert {(point.event, point.file, point.path) for point in own} == {("line", "test_lines.py", "")}
    assert [point.line - own[0].line for point in own] == [0, 1, 2]


@pytest.mark.parametrize(
    ("work", "writing"),
    [
        (lambda: writes_an_item({}), [False, True, False]),
        (lambda: changes_by_name([1]), [False, True, False]),
        (lambda: Bare()(torch.ones(1, 2)), [True, False]),
        (lambda: in_place(torch.ones(2)), [True, False]),
    ],
)
def test_a_line_that_writes_into_an_object_is_known_by_its_code(
    work: Callable[[], object], writing: list[bool]
) -> None:
    passed = [point for point in lines_of(work) if point.type != "<lambda>"]
    assert [point.writes for point in passed] == writing


def in_place(value: Tensor) -> Tensor:
    value.add_(1)
    return value


def test_other_files_are_not_looked_at_and_the_tracer_before_is_put_back() -> None:
    passed: list[Point] = []

    def before(*_: object) -> None:
        return None

    outer = sys.gettrace()
    sys.settrace(before)
    try:
        with LineTracer(frozenset({"nowhere.py"}), passed.append).tracing():
            writes_an_item({})
        after = sys.gettrace()
    finally:
        sys.settrace(outer)
    assert passed == []
    assert after is before


def test_the_files_are_the_specs_and_those_of_classes_outside_of_torch() -> None:
    spec = Path("/somewhere/net.py")
    assert line_files(nn.Sequential(nn.Linear(2, 2)), None) == frozenset()
    assert line_files(nn.Sequential(Bare(), nn.Linear(2, 2)), spec) == {HERE, str(spec)}
    library = Path(torchresidual.__file__).parent
    files = line_files(torchresidual.ResidualSequential(nn.Linear(2, 2)), None)
    written = FILE_NAME
    assert files == {written, *(str(path) for path in library.glob("*.py"))}


@pytest.mark.parametrize(
    ("make", "where"),
    [
        (MakesLayer, "shared.lines"),
        (Bare, "shared.lines"),
        (KeepsInput, "shared"),
        (KeepsMean, "shared"),
        (KeepsByName, "shared"),
        (CachesShape, "shared"),
        (HooksInForward, "shared"),
    ],
)
def test_each_planted_fault_is_found_by_default_and_fails_in_every_replay(
    make: Callable[[], nn.Module], where: str
) -> None:
    module = make()
    found = check(module, "shared", ALL)
    assert found.status == "fail"
    assert found.schedule is not None
    assert found.schedule.partition(":")[0] == where
    assert found.detail.endswith("run again 3 times, it failed 3 times")
    again = replay(module, found.schedule)
    assert (again.status, again.runs, again.wrong, again.failure) == ("fail", 1, 1, found.failure)
    assert wrong_of_100(module, found.schedule) == 100


def wrong_of_100(module: nn.Module, text: str) -> int:
    """Run a schedule a hundred times, as a replay does once."""
    _, schedule = parse_schedule(text)
    footing = settle_footing(Subject(module, share, ((example(3),), (example(4),))))
    if schedule.lines:
        at_lines = footing.at_lines(line_files(module, None))
        assert at_lines is not None
        footing = at_lines
    runs = [footing.run(schedule).outcomes for _ in range(100)]
    return sum(
        any(compare("A", found, right) for found, right in zip(outcomes, footing.references, strict=True))
        for outcomes in runs
    )


@pytest.mark.parametrize("make", HARMLESS)
def test_each_harmless_look_alike_passes_by_default(make: Callable[[], nn.Module]) -> None:
    found = check(make(), "shared", ALL)
    assert (found.status, found.wrong) == ("pass", 0)


def test_a_fault_between_lines_needs_its_lines() -> None:
    found = check(MakesLayer(), "shared", replace(ALL, lines=False))
    assert (found.status, found.runs) == ("skip", 6)
    assert check(MakesLayer(), "shared", replace(ALL, preemptions=0)).status == "skip"


def test_our_own_lines_are_thinned_and_that_is_said() -> None:
    block = torchresidual.ResidualSequential(
        *(
            layer
            for _ in range(8)
            for layer in (torchresidual.Record(), nn.Linear(4, 4), torchresidual.Apply())
        )
    )
    found = check(block, "shared", replace(ALL, schedules=20))
    assert (found.status, found.wrong) == ("pass", 0)
    assert "20 of 4,706 schedules between source lines right (2 threads, 48 of " in found.detail


def test_the_forwards_that_our_library_writes_out_have_points_between_their_lines_too() -> None:
    block = torchresidual.ResidualSequential(torchresidual.Record(), nn.Linear(4, 4), torchresidual.Apply())
    footing = settle_footing(Subject(block, share, ((example(3),),))).at_lines(line_files(block, None))
    assert footing is not None
    assert {point.file for point in footing.steps[0] if point.type == "forward"} >= {FILE_NAME}
