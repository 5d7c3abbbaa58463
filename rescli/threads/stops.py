"""Where a thread may be interrupted: at all of its points or, of too many, at some that are worth it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rescli.threads.result import Point

# So many points of a thread are stops. Layers are few or alike; lines are many, and most of them only read.
MOST_LAYERS = 256
MOST_LINES = 48


def choose_stops(points: Sequence[Point], most: int) -> tuple[int, ...]:
    """Choose points, counted from 1, at which a thread is interrupted.

    Where there are too many, those before and after a line that writes come first, since only there can
    threads meet; then the others, evenly.

    Args:
        points: What the thread passes when it is alone, in order.
        most: How many to choose at most.

    Example:
        >>> from rescli.threads.result import Point
        >>> choose_stops([Point("entry", str(index), "Linear") for index in range(9)], 3)
        (2, 5, 8)
    """
    everything = range(1, len(points) + 1)
    if len(points) <= most:
        return tuple(everything)
    writing = {
        stop
        for index, point in enumerate(points, start=1)
        if point.writes
        for stop in (index, index + 1)
        if stop <= len(points)
    }
    if len(writing) >= most:
        return _evenly(sorted(writing), most)
    others = [stop for stop in everything if stop not in writing]
    return tuple(sorted({*writing, *_evenly(others, most - len(writing))}))


def _evenly(stops: Sequence[int], number: int) -> tuple[int, ...]:
    """Take so many of them, at equal distances."""
    return tuple(stops[(2 * index + 1) * len(stops) // (2 * number)] for index in range(number))
