"""What follows from a run, and the sentences that say it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rescli.threads.explore import REPLAYS
from rescli.threads.schedule import LISTED

if TYPE_CHECKING:
    from rescli.threads.explore import Exploration
    from rescli.threads.footing import Footing
    from rescli.threads.limits import Limits
    from rescli.threads.result import Status
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


def judge_schedules(limits: Limits, footing: Footing, selection: Selection, found: Exploration) -> Verdict:
    """Judge what came of the schedules within a bound.

    Args:
        limits: How far the check was to go.
        footing: What was run.
        selection: The schedules that were to be tried.
        found: What came of them.
    """
    explored = _explored(limits, footing, selection, found)
    if found.failure is not None and found.schedule is not None:
        first = found.failure.wrong[0].sentence
        if not found.schedule.preemptions:
            first += " (without a hand-over: the result depends on the calls before it)"
        return "fail", f"{first}; {explored}; {_again(found)}"
    if found.hung:
        return "skip", (
            "the threads did not end, as if each waited for a lock that another one holds; "
            f"before that, {explored}"
        )
    if max(footing.points) < 2:
        # The one point is the end of forward.
        return "skip", f"forward calls no layer, so no thread can be interrupted within it: {explored}"
    if not found.runs:
        return "skip", f"no schedule could be tried: {explored}"
    if found.impossible and not found.interrupted:
        return "skip", f"no thread can be interrupted: {explored}"
    return "pass", explored


def _explored(limits: Limits, footing: Footing, selection: Selection, found: Exploration) -> str:
    total = f"more than {LISTED:,}" if selection.total is None else f"{selection.total:,}"
    which = f"all {found.runs:,}" if found.runs == selection.total else f"{found.runs:,} of {total}"
    tried = f"tried, {found.wrong:,} wrong" if found.wrong else "right"
    points = f"{limits.threads} threads, {max(footing.points)} points each"
    bound = f"at most {count(limits.preemptions, 'preemption')}"
    parts = [f"{which} schedules {tried} ({points}, {bound})"]
    if found.impossible:
        parts.append(
            f"{found.impossible:,} cannot be followed: a thread waits, as for a lock that the other one holds"
        )
    if not found.in_time and not found.hung:
        parts.append("the time was up (--max-time)")
    if len(selection.schedules) != selection.total:
        parts.append(f"chosen by seed {limits.seed}, no more than {limits.schedules:,} (--schedules)")
    return "; ".join((*parts, footing.note) if footing.note else parts)


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
    calls = f"{found.calls:,} calls of {limits.stress_threads} free threads"
    late = "" if found.in_time else "; the time was up (--max-time)"
    note = f"; {footing.note}" if footing.note else ""
    if found.wrong:
        return "fail", f"{found.first[0].sentence}; {found.wrong:,} of {calls} wrong{late}{note}"
    if found.hung:
        return "skip", f"the threads did not end after {calls}, as if they waited for a lock{note}"
    if not found.calls:
        return "skip", f"no call could be made{late}{note}"
    return "pass", f"{calls} right: no proof{late}{note}"


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
    return f"{number} {noun}{'' if number == 1 else 's'}"
