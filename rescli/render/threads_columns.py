"""A schedule drawn as columns: a column a thread, time going down, an arrow where one hands over to another.

::

    A                    B
    exit of 0 Linear
    -------------------->
                         entry of 0 Linear
                         (3 more)
                         end
    <--------------------
    entry of 1 Linear
    end
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from rescli.render.columns import columns_of
from rescli.render.style import visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rescli.threads.result import Failure, Step

# Of a turn's steps so many are shown at its start and at its end.
_HEAD, _TAIL = 1, 2
_GAP = 2
# Of a source line so many characters are shown.
_SOURCE = 60


@dataclass(frozen=True, slots=True)
class HandOver:
    """Where a thread was interrupted.

    Args:
        thread: Its letter.
        to: The letter of the thread that went on.
        before: The last point that the thread had passed, as text.
        after: The next one that it passed later, as text; empty where the thread stood before a source line.
    """

    thread: str
    to: str
    before: str
    after: str

    @property
    def place(self) -> str:
        """Where the thread stood, in words."""
        return f"between {self.before} and {self.after}" if self.after else self.before


def hand_overs(steps: Sequence[Step]) -> tuple[HandOver, ...]:
    """Find where threads were interrupted, and between which points of their own that was.

    Args:
        steps: What the threads did, in order.
    """
    found = []
    for index, (step, following) in enumerate(pairwise(steps)):
        if step.hands_over:
            later = next((other for other in steps[index + 1 :] if other.thread == step.thread), None)
            after = step_in_words(later) if later is not None else "nothing"
            if step.point is not None and step.point.event == "line":
                after = ""
            found.append(HandOver(step.thread, following.thread, step_in_words(step), after))
    return tuple(found)


def step_text(step: Step) -> str:
    """Name a step: ``exit of 0 Linear``, ``before net.py:12``, or ``end``.

    Args:
        step: What a thread did.
    """
    point = step.point
    if point is None:
        return "end"
    return f"before {point.file}:{point.line}" if point.event == "line" else f"{point.event} of {point.layer}"


def step_in_words(step: Step) -> str:
    """Name a step, and show a line's text: ``before net.py:12 (self.kept = x)``.

    Args:
        step: What a thread did.
    """
    source = step.point.source if step.point is not None else ""
    return f"{step_text(step)} ({_cut(source)})" if source else step_text(step)


def _cut(source: str) -> str:
    return source if len(source) <= _SOURCE else f"{source[: _SOURCE - 3]}..."


def draw_columns(failure: Failure, *, width: int = 80, ascii_only: bool = False) -> list[str]:
    """Draw the steps of a failing schedule, a column for each thread.

    Args:
        failure: Its steps are drawn; threads that got something wrong say so at their end.
        width: Columns of the page. Where the threads do not fit side by side, each step is a line that
            begins with its thread.
        ascii_only: Whether only ASCII characters can be shown.
    """
    wrong = {value.thread for value in failure.wrong}
    turns = [
        (thread, [written(text, ascii_only=ascii_only) for text in _shortened(list(group), wrong)])
        for thread, group in groupby(failure.steps, _thread)
    ]
    letters = sorted({thread for thread, _ in turns})
    column = _GAP + max((columns_of(text) for _, texts in turns for text in texts), default=0)
    if column * len(letters) > width:
        return [f"{thread}  {text}" for thread, texts in turns for text in texts]
    place = {letter: index * column for index, letter in enumerate(letters)}
    lines = ["".join(letter.ljust(column) for letter in letters).rstrip()]
    before = ""
    for thread, texts in turns:
        if before:
            lines.append(_arrow(place[before], place[thread], ascii_only=ascii_only))
        lines += [" " * place[thread] + text for text in texts]
        before = thread
    return lines


def written(text: str, *, ascii_only: bool) -> str:
    r"""Write what comes from the user's code so that it takes one line, as wide as it looks.

    Args:
        text: A layer's name, a source line, or what an exception says.
        ascii_only: Whether only ASCII characters can be shown; others become escapes.

    Example:
        >>> print(written("α\tβ", ascii_only=False), written("α", ascii_only=True))
        α\tβ \u03b1
    """
    shown = visible(text)
    return shown.encode("ascii", "backslashreplace").decode() if ascii_only else shown


def _thread(step: Step) -> str:
    return step.thread


def _shortened(steps: list[Step], wrong: set[str]) -> Iterator[str]:
    """Give the texts of one turn, with the middle of a long one left out."""
    hidden = len(steps) - _HEAD - _TAIL
    for index, step in enumerate(steps):
        if hidden > 1 and _HEAD <= index < _HEAD + hidden:
            if index == _HEAD:
                yield f"({hidden} more)"
            continue
        yield step_text(step) + (", wrong" if step.point is None and step.thread in wrong else "")


def _arrow(start: int, end: int, *, ascii_only: bool) -> str:
    line, left, right = ("-", "<", ">") if ascii_only else ("─", "←", "→")
    length = abs(end - start) - 1
    body = line * length + right if start < end else left + line * length
    return " " * min(start, end) + body
