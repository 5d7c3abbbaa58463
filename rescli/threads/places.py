"""The layers that a forward runs, in order: where a scenario can step in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rescli.threads.copies import IncomparableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rescli.threads.result import Point


def layers_that_run(passed: Sequence[Point]) -> tuple[str, ...]:
    """Name the layers that a thread runs by their paths, each once, in the order in which they begin.

    Args:
        passed: The points that the thread passes when it is alone. Layers that the block runs in threads of
            its own are not among them: nobody can step in there.

    Raises:
        IncomparableError: It runs none.

    Example:
        >>> from rescli.threads.result import Point
        >>> layers_that_run([Point("entry", "0", "ReLU"), Point("exit", "0", "ReLU"), Point("exit", "", "Net")])
        ('0',)
    """
    paths = dict.fromkeys(point.path for point in passed if point.event == "entry")
    if not paths:
        raise IncomparableError("no layer runs in the thread that calls forward: there is no place within it")
    return tuple(paths)


def some_of(paths: Sequence[str], most: int) -> tuple[str, ...]:
    """Choose the last one and others at equal distances.

    Args:
        paths: In the order in which they run.
        most: How many to choose at most.

    Example:
        >>> some_of(["0", "1", "2", "3", "4"], 2)
        ('1', '4')
    """
    number = min(most, len(paths))
    return tuple(paths[(index + 1) * len(paths) // number - 1] for index in range(number))
