"""A check with threads as the JSON document ``rescli.threads/1``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rescli.render.document import document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rescli.threads.result import Failure, Step, ThreadsResult


def threads_json(results: Sequence[ThreadsResult]) -> str:
    """Write the results of a check as JSON.

    Args:
        results: What was found, a result for each scenario of each block.
    """
    return document("rescli.threads/1", results=[_row(result) for result in results])


def _row(result: ThreadsResult) -> dict[str, object]:
    return {
        "name": result.name,
        "target": result.target,
        "scenario": result.scenario,
        "status": result.status,
        "runs": result.runs,
        "wrong": result.wrong,
        "bound": result.bound,
        "threads": result.threads,
        "points": result.points,
        "schedules": result.schedules,
        "schedule": result.schedule,
        "detail": result.detail,
        "changed": result.changed,
        "failure": None if result.failure is None else _failure(result.failure),
    }


def _failure(failure: Failure) -> dict[str, object]:
    return {"wrong": failure.wrong, "steps": [_step(step) for step in failure.steps]}


def _step(step: Step) -> dict[str, object]:
    point = step.point
    return {
        "thread": step.thread,
        "event": "end" if point is None else point.event,
        "path": None if point is None else point.path,
        "type": None if point is None else point.type,
        "file": None if point is None or not point.line else point.file,
        "line": None if point is None or not point.line else point.line,
        "hands_over": step.hands_over,
    }
