"""A check with threads as text: a line a scenario, and how each failure came about and can be repeated."""

from __future__ import annotations

import shlex
import textwrap
from itertools import groupby
from typing import TYPE_CHECKING

from rescli.render.threads_columns import draw_columns, hand_overs, written

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rescli.threads.result import Failure, Status, ThreadsResult

_COLOR: dict[Status, str] = {"pass": "32", "fail": "31;1", "warn": "33", "skip": "2"}
_PLURAL: dict[Status, str] = {"pass": "passed", "fail": "failed", "warn": "warned", "skip": "skipped"}
_INDENT = "  "
# So many wrong values are told besides the first.
_TOLD = 3
# The names of scenarios take at least so many columns.
_NAMES = 10


def threads_text(
    results: Sequence[ThreadsResult],
    *,
    options: Sequence[str] = (),
    width: int = 80,
    ascii_only: bool = False,
    color: bool = False,
) -> str:
    """Write the results of a check as text.

    Args:
        results: What was found, a result for each scenario of each block.
        options: The options, as typed, that a replay needs as well: ``--seed 1``, ``--input 8x64``.
        width: Columns to lay it out for.
        ascii_only: Whether only ASCII characters can be shown.
        color: Whether escape sequences are wanted.
    """
    lines: list[str] = []
    column = max(_NAMES, *(len(result.scenario) + 2 for result in results), 0)
    for (name, target), group in groupby(results, lambda result: (result.name, result.target)):
        lines += [f"{name}  ({target})", ""]
        for result in group:
            lines += _scenario(result, width, column, color=color, ascii_only=ascii_only)
            if result.failure is not None and result.failure.steps:
                lines += _indented(_failure(result, result.failure, options, width, ascii_only=ascii_only))
        if lines[-1]:
            lines.append("")
    lines.append(_summary(results))
    return "\n".join(lines) + "\n"


def _scenario(
    result: ThreadsResult, width: int, column: int, *, color: bool, ascii_only: bool
) -> Iterator[str]:
    status = f"\x1b[{_COLOR[result.status]}m{result.status}\x1b[0m" if color else result.status
    head = f"{_INDENT}{status}  {result.scenario:<{column}}"
    # Escape sequences take no room.
    indent = " " * (len(_INDENT) + len(result.status) + 2 + column)
    detail = written(result.detail, ascii_only=ascii_only)
    first, *rest = textwrap.wrap(detail, max(20, width - len(indent)), break_on_hyphens=False) or [""]
    yield head + first
    yield from (indent + line for line in rest)


def _indented(lines: Iterator[str]) -> Iterator[str]:
    return (f"{_INDENT * 2}{line}".rstrip() for line in lines)


def _failure(
    result: ThreadsResult, failure: Failure, options: Sequence[str], width: int, *, ascii_only: bool
) -> Iterator[str]:
    """Tell what else is wrong, where the hand-overs were, what the threads did, and how to see it again."""
    room = max(20, width - 2 * len(_INDENT))
    yield ""
    # The first wrong value is what the line of the scenario begins with.
    others = failure.wrong[1:]
    if others:
        yield "Also wrong:"
        for wrong in others[:_TOLD]:
            yield from _wrapped(written(wrong.sentence, ascii_only=ascii_only), room)
        if len(others) > _TOLD:
            yield from _wrapped(f"and {len(others) - _TOLD:,} more values", room)
        yield ""
    hands = hand_overs(failure.steps)
    yield "Handed over:" if hands else "One thread ran after the other:"
    for hand in hands:
        place = written(hand.place, ascii_only=ascii_only)
        yield from _wrapped(f"{hand.thread} to {hand.to}, {place}", room)
    yield ""
    columns = draw_columns(failure, width=room - len(_INDENT), ascii_only=ascii_only)
    yield from (_INDENT + line for line in columns)
    yield ""
    if result.schedule is not None:
        command = ["rescli", "check-threads", _typed_target(result), "--replay", result.schedule, *options]
        yield f"Replay: {shlex.join(command)}"
        yield ""


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent=_INDENT, subsequent_indent=_INDENT * 2, break_on_hyphens=False
    )


def _typed_target(result: ThreadsResult) -> str:
    """Give a TARGET that means this block alone, also where the spec holds several."""
    kind, _, shipped = result.target.partition(":")
    return f"{shipped}:{result.name}" if kind == "shipped" else result.target


def _summary(results: Sequence[ThreadsResult]) -> str:
    counts: dict[Status, int] = {"pass": 0, "fail": 0, "warn": 0, "skip": 0}
    for result in results:
        counts[result.status] += 1
    parts = [f"{number} {_PLURAL[status]}" for status, number in counts.items() if number]
    return ", ".join(parts) if parts else "nothing was checked"
