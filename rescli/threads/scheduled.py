"""Schedules of a scenario, in phases: at layers within the bound, beyond it at random, then between lines."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

from rescli.errors import CommandLineError
from rescli.threads.explore import explore
from rescli.threads.lines import line_files
from rescli.threads.priorities import random_schedules
from rescli.threads.schedule import LETTERS, Schedule, Selection, select_schedules
from rescli.threads.stops import MOST_LAYERS, MOST_LINES, choose_stops
from rescli.threads.wording import Phase, count, judge_phases, judge_replay

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rescli.threads.arrange import Arrangement
    from rescli.threads.footing import Footing
    from rescli.threads.result import ThreadsResult
    from rescli.threads.task import Task

# Whatever its share of the time, of each scenario so many schedules without a hand-over are tried, and so many with.
_LEAST_SERIAL, _LEAST_INTERRUPTED = 1, 2


def run_schedules(task: Task, footing: Footing) -> ThreadsResult:
    """Try schedules of a scenario until one goes wrong or all are tried.

    Args:
        task: The scenario.
        footing: What its threads get alone.
    """
    phases: list[Phase] = []
    for phase in _phases(task, footing):
        phases.append(phase)
        if phase.found.failure is not None or phase.found.hung:
            break
    last = phases[-1]
    failing = last.found.schedule
    return task.result(
        judge_phases(task.limits, tuple(phases), task.scenario),
        {
            "runs": sum(phase.found.runs for phase in phases),
            "wrong": sum(phase.found.wrong for phase in phases),
            "threads": len(footing.references),
            "points": max(last.footing.points if failing else footing.points),
            "schedules": last.selection.total
            if failing and last.kind == "lines"
            else phases[0].selection.total,
            "schedule": None if failing is None else failing.written(task.scenario),
            "failure": last.found.failure,
        },
    )


def _phases(task: Task, footing: Footing) -> Iterator[Phase]:
    limits = task.limits
    stops = [choose_stops(own, MOST_LAYERS) for own in footing.steps]
    counts = [len(own) for own in stops]
    selection = select_schedules(counts, limits.preemptions, limits.within(task.scenario), limits.seed).at(
        stops
    )
    yield _explored(task, "layers", footing, selection, stops)
    if not limits.preemptions:
        return
    drawn = random_schedules(counts, limits.preemptions, limits.beyond(task.scenario), limits.seed)
    if drawn and not task.out_of_time():
        yield _explored(task, "random", footing, Selection(drawn, None).at(stops), stops)
    if not limits.lines or task.out_of_time():
        return
    files = line_files(footing.base, task.spec_file)
    at_lines = footing.at_lines(files) if files else None
    if at_lines is None:
        return
    stops = [choose_stops(own, MOST_LINES) for own in at_lines.steps]
    counts = [len(own) for own in stops]
    selection = select_schedules(counts, limits.preemptions, limits.within(task.scenario), limits.seed)
    yield _explored(task, "lines", at_lines, selection.at(stops, lines=True), stops)


def _explored(
    task: Task, kind: str, footing: Footing, selection: Selection, stops: Sequence[Sequence[int]]
) -> Phase:
    where = {"layers": "schedule", "random": "random schedule", "lines": "between lines, schedule"}[kind]
    total = len(selection.schedules)

    def announced() -> Iterator[Schedule]:
        for index, schedule in enumerate(_ordered(selection.schedules)):
            if index % 20 == 0:
                task.say(f"{task.block.name}: {task.scenario}, {where} {index} of {total}")
            yield schedule

    asked = itertools.count()

    def out_of_time() -> bool:
        enough = kind != "layers" or next(asked) >= _LEAST_SERIAL + _LEAST_INTERRUPTED
        return task.all_out_of_time() or (enough and task.out_of_time())

    found = explore(footing, announced(), out_of_time)
    return Phase(kind, footing, selection, found, max(map(len, stops)))


def _ordered(schedules: Sequence[Schedule]) -> tuple[Schedule, ...]:
    """Put a few of each kind first: many threads have so many orders that the time may end with these."""
    serial = [schedule for schedule in schedules if not schedule.preemptions][:_LEAST_SERIAL]
    interrupted = [schedule for schedule in schedules if schedule.preemptions][:_LEAST_INTERRUPTED]
    return tuple(dict.fromkeys((*serial, *interrupted, *schedules)))


def replay_schedule(task: Task, arrange: Arrangement, schedule: Schedule) -> ThreadsResult:
    """Run one schedule again.

    Args:
        task: The scenario.
        arrange: What its threads call.
        schedule: The schedule.

    Raises:
        CommandLineError: The block has fewer points than the schedule needs.
    """
    footing = task.footing(arrange, schedule.threads)
    text = schedule.written(task.scenario)
    if schedule.lines:
        at_lines = footing.at_lines(line_files(footing.base, task.spec_file))
        if at_lines is None:
            raise CommandLineError(
                f"--replay {text}: no line of {task.block.target} outside PyTorch runs in its forward",
                hint="give the target, --set, --input and --batch-size of the run that printed the schedule",
            )
        footing = at_lines
    for turn in schedule.turns:
        if turn.stop is not None and turn.stop > footing.points[turn.thread]:
            raise CommandLineError(
                f"--replay {text}: thread {LETTERS[turn.thread]} passes only "
                f"{count(footing.points[turn.thread], 'point')} in {task.block.target}",
                hint="give the target, --set, --input and --batch-size of the run that printed the schedule",
            )
    found = explore(replace(footing, right=frozenset()), (schedule,), lambda: False)
    return task.result(
        judge_replay(footing, schedule, found),
        {
            "runs": found.runs,
            "wrong": found.wrong,
            "bound": schedule.preemptions,
            "threads": schedule.threads,
            "points": max(footing.points),
            "schedule": text if found.wrong else None,
            "failure": found.failure,
        },
    )
