from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rescli.threads.arrange import share
from rescli.threads.explore import explore
from rescli.threads.footing import Footing, Subject, settle_footing
from rescli.threads.schedule import Schedule, schedules_within
from tests.rescli.threads.planted import KeepsMean, Locks, example

if TYPE_CHECKING:
    import pytest
    from torch import nn

    from rescli.threads.runner import ScheduledRun


def footing_of(module: nn.Module, patience_s: float = 0.25) -> Footing:
    return settle_footing(Subject(module, share, ((example(3),), (example(4),)), patience_s=patience_s))


def test_the_first_wrong_schedule_is_kept_and_the_others_are_counted() -> None:
    schedules = list(schedules_within((5, 5), 1))
    found = explore(footing_of(KeepsMean(), 5), schedules, lambda: False)
    assert (found.runs, found.interrupted, found.impossible, found.in_time) == (12, 10, 0, True)
    assert str(found.schedule) == "A1,B,A"
    # From the entry of the first layer to the exit of the second; not after forward.
    assert (found.wrong, found.replayed) == (8, 3)


def test_a_lock_that_one_schedule_met_is_not_run_into_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    run = Footing.run

    def noting(self: Footing, schedule: Schedule) -> ScheduledRun:
        ran.append(str(schedule))
        return run(self, schedule)

    footing = footing_of(Locks())
    monkeypatch.setattr(Footing, "run", noting)
    found = explore(footing, schedules_within((5, 5), 2), lambda: False)
    assert (found.wrong, found.hung) == (0, False)
    assert found.runs + found.impossible == 62
    # One thread stands at its point 3 or 4 with the lock, the other waits behind its point 2: each of these
    # 2 x 2 places is met once, and no schedule with one of them is tried again. The two without a hand-over have
    # been run before.
    assert len(ran) == found.runs + 4 - 2
    assert not {"A,B", "B,A"} & set(ran)
    assert {"A3,B,A", "A4,B,A", "B3,A,B", "B4,A,B"} <= set(ran)
    assert "A3,B4,A,B" not in ran


def test_when_the_time_is_up_the_rest_is_left() -> None:
    answers = iter([False, False, True])
    found = explore(footing_of(KeepsMean(), 5), schedules_within((5, 5), 0), lambda: next(answers))
    assert (found.runs, found.in_time) == (2, True)
    found = explore(footing_of(KeepsMean(), 5), schedules_within((5, 5), 0), lambda: True)
    assert (found.runs, found.in_time) == (0, False)


def test_a_failure_that_does_not_come_again_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    footing = footing_of(KeepsMean(), 5)
    swapped = replace(footing, references=tuple(reversed(footing.references)))
    answers = iter([swapped, footing, swapped, footing])
    # What is compared with changes from run to run, as if the module gave other values each time.
    monkeypatch.setattr("rescli.threads.explore._wrong", lambda _, run: wrong(next(answers), run))
    found = explore(footing, list(schedules_within((5, 5), 1))[-1:], lambda: False)
    assert (found.wrong, found.replayed) == (1, 1)


def wrong(footing: Footing, run: ScheduledRun) -> tuple[object, ...]:
    from rescli.threads.outcome import compare

    pairs = zip(run.outcomes, footing.references, strict=True)
    return tuple(value for found, expected in pairs for value in compare("A", found, expected))
