"""What follows from a run, and the sentences that say it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rescli.threads.explore import REPLAYS
from rescli.threads.schedule import LISTED

if TYPE_CHECKING:
    from rescli.threads.explore import Exploration
    from rescli.threads.footing import Footing
    from rescli.threads.limits import Limits
    from rescli.threads.result import Status, Wrong
    from rescli.threads.schedule import Schedule, Selection
    from rescli.threads.stress import StressRun

Verdict = tuple["Status", str]


def judge_state(first: tuple[str, ...], second: tuple[str, ...]) -> Verdict:
    """Judge what two forwards changed on the module.

    Args:
        first: The names of what the first one changed.
        second: Of what the second one changed.
    """
    changed = sorted({*first, *second})
    if not changed:
        return "pass", "2 forwards in 1 thread left everything on the module as it was"
    once = "" if second else " in its first call only"
    return "warn", f"forward writes to the module{once}: {', '.join(changed)}"


@dataclass(frozen=True, slots=True)
class Phase:
    """Schedules of one kind, and what came of them.

    Args:
        kind: ``layers`` within the bound, ``random`` beyond it, or ``lines`` within it between source lines.
        footing: What was run.
        selection: The schedules that were to be tried.
        found: What came of them.
        stops: The points of a thread at which it may be interrupted, where that are not all.
    """

    kind: str
    footing: Footing
    selection: Selection
    found: Exploration
    stops: int


def judge_phases(  # noqa: PLR0911 - a return for each answer
    limits: Limits, phases: tuple[Phase, ...], scenario: str
) -> Verdict:
    """Judge what came of the schedules of a scenario.

    Args:
        limits: How far the check was to go.
        phases: What was tried, in order; a failure can only be in the last.
        scenario: Which situation it was.
    """
    last, footing = phases[-1], phases[0].footing
    explored = "; ".join(
        (
            *(_explored(limits, phase, limits.within(scenario)) for phase in phases),
            *filter(None, (footing.note,)),
        )
    )
    found = last.found
    if found.failure is not None and found.schedule is not None:
        first = found.failure.wrong[0].sentence
        if not found.schedule.preemptions:
            first += " (without a hand-over: the result depends on the calls before it)"
        return "fail", f"{first}; {explored}; {_again(found)}"
    if footing.raising:
        others = "the other threads" if len(footing.references) > 2 else "the other thread"
        return "fail", f"{_told_first(footing.raising)}; {others}: {explored}"
    if found.hung:
        return "skip", (
            "the threads did not end, as if each waited for a lock that another one holds; "
            f"before that, {explored}"
        )
    if max(max(phase.footing.points) for phase in phases) < 2:
        # The one point is the end of forward.
        return "skip", (
            "no layer runs in the thread that calls forward, so no thread can be interrupted within it: "
            f"{explored}"
        )
    runs = sum(phase.found.runs for phase in phases)
    if not runs:
        return "skip", f"no schedule could be tried: {explored}"
    if any(phase.found.impossible for phase in phases) and not any(
        phase.found.interrupted for phase in phases
    ):
        return "skip", f"no thread can be interrupted: {explored}"
    return "pass", explored


def _told_first(raising: tuple[Wrong, ...]) -> str:
    more = f" (so do {count(len(raising) - 1, 'other')})" if len(raising) > 1 else ""
    return raising[0].sentence + more


def _explored(limits: Limits, phase: Phase, most: int) -> str:
    found, selection, footing = phase.found, phase.selection, phase.footing
    state = f"tried, {found.wrong:,} wrong" if found.wrong else "right"
    every = max(footing.points)
    if phase.kind == "random":
        falls = max(schedule.preemptions for schedule in selection.schedules)
        parts = [
            f"{found.runs:,} random schedules {state} (PCT, at most {falls} preemptions, seed {limits.seed})"
        ]
    else:
        total = f"more than {LISTED:,}" if selection.total is None else f"{selection.total:,}"
        which = f"all {found.runs:,}" if found.runs == selection.total else f"{found.runs:,} of {total}"
        place = " between source lines" if phase.kind == "lines" else ""
        thinned = "" if phase.stops == every else f"{phase.stops} of "
        points = f"{thinned}{count(every, 'point')} each"
        bound = f"at most {count(limits.preemptions, 'preemption')}"
        threads = f"{len(footing.references)} threads, "
        parts = [f"{which} schedules{place} {state} ({threads}{points}, {bound})"]
    if found.impossible:
        parts.append(
            f"{found.impossible:,} cannot be followed: a thread waits, as for a lock that the other one holds"
        )
    if not found.in_time and not found.hung:
        parts.append("the time was up (--max-time)")
    if phase.kind != "random" and len(selection.schedules) != selection.total:
        option = "--schedules" if most == limits.schedules else "a third of --schedules"
        parts.append(f"chosen by seed {limits.seed}, no more than {most:,} ({option})")
    return "; ".join(parts)


def judge_replay(footing: Footing, schedule: Schedule, found: Exploration) -> Verdict:
    """Judge what came of the one schedule that was to be run again.

    Args:
        footing: What was run.
        schedule: The schedule.
        found: What came of it.
    """
    text = f"schedule {schedule} ({count(schedule.preemptions, 'preemption')})"
    note = f"; {footing.note}" if footing.note else ""
    if found.failure is not None:
        return "fail", f"{text}: {found.failure.wrong[0].sentence}; {_again(found)}{note}"
    if footing.raising:
        return "fail", f"{text}: {_told_first(footing.raising)}; no other value is wrong{note}"
    if found.hung or found.impossible:
        return (
            "skip",
            f"{text} cannot be followed: a thread waits, as for a lock that another one holds{note}",
        )
    return "pass", f"{text}: each thread gets what it gets alone{note}"


def judge_stress(limits: Limits, footing: Footing, found: StressRun) -> Verdict:
    """Judge what came of free threads.

    Args:
        limits: How far the check was to go.
        footing: What was run.
        found: What came of it.
    """
    calls = f"{found.calls:,} calls of {limits.many_threads} free threads"
    late = "" if found.in_time else "; the time was up (--max-time)"
    note = f"; {footing.note}" if footing.note else ""
    if found.wrong:
        return "fail", f"{found.first[0].sentence}; {found.wrong:,} of {calls} wrong{late}{note}"
    if footing.raising:
        return "fail", f"{_told_first(footing.raising)}; no other value of {calls} is wrong{late}{note}"
    if found.hung:
        return "skip", f"the threads did not end after {calls}, as if they waited for a lock{note}"
    if not found.calls:
        return "skip", f"no call could be made{late}{note}"
    return "pass", f"{calls} right: no proof{late}{note}"


def judge_nested(wrong: tuple[Wrong, ...], path: str) -> Verdict:
    """Judge a call within a call that goes wrong although no other thread runs.

    Args:
        wrong: What differs from two calls that are made one after the other; at least one.
        path: The layer before which the inner call was made.
    """
    return "warn", (
        f"a call before {path} within a call, both in one thread, gives other values than one after the "
        f"other: {wrong[0].value} is {wrong[0].found}, not {wrong[0].expected}; forward must not be called "
        "from within itself"
        if wrong[0].value != "exception"
        else f"a call before {path} within a call, both in one thread, raises {wrong[0].found}; forward must "
        "not be called from within itself"
    )


def judge_exception(wrong: tuple[Wrong, ...], paths: tuple[str, ...]) -> Verdict:
    """Judge a call after an exception that goes wrong although no other thread runs.

    Args:
        wrong: What differs from a call without an exception before; at least one.
        paths: The layers before which the exceptions were raised.
    """
    first = wrong[0]
    told = f"raises {first.found}" if first.value == "exception" else f"{first.value} is {first.found}"
    right = "no exception" if first.value == "exception" else first.expected
    return "fail", (
        f"after an exception in forward (raised before {' and before '.join(paths)}) the same thread's next call: "
        f"{told}, without the exception it is {right}"
    )


def judge_statistics(first: tuple[str, ...], none: tuple[str, ...], threads: int) -> Verdict:
    """Judge what replicas leave behind in buffers.

    Args:
        first: The buffers that hold what the first replica alone would have left.
        none: Those that hold nothing of any replica.
        threads: How many replicas there were.
    """
    if not first and not none:
        return "pass", f"the buffers hold what all {threads} replicas of one step gave them"
    parts = []
    if first:
        parts.append(
            f"all but one replica are lost: {', '.join(first)} hold what the first of {threads} gave"
        )
    if none:
        parts.append(f"all replicas are lost: {', '.join(none)}")
    return "warn", (
        f"train mode under nn.DataParallel: statistics of {'; of '.join(parts)}; use DistributedDataParallel "
        "(with SyncBatchNorm where the batch of one process is small), or eval mode for these layers"
    )


def warn_of_dimension(dim: int, shape: tuple[int, ...]) -> str:
    """Word the warning that nn.DataParallel would cut something else than the batch.

    Args:
        dim: Where the batch lies.
        shape: The shape of the input.
    """
    return (
        f"nn.DataParallel cuts dim=0 of an input {shape}, which changes the result, as that is not the batch; "
        f"the batch lies in dim={dim}: nn.DataParallel(module, dim={dim})"
    )


def _again(found: Exploration) -> str:
    return f"run again {REPLAYS} times, it failed {found.replayed} times"


def count(number: int, noun: str) -> str:
    """Write a number with its noun.

    Args:
        number: How many.
        noun: One of them.

    Example:
        >>> count(1, "point"), count(2, "point")
        ('1 point', '2 points')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
