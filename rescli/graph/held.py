"""How much memory the recorded tensors of a run take at once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Hold:
    """A recorded tensor, from the row that saves it to a row that reads it.

    Args:
        first: Row of the Record.
        last: Row of the Apply.
        size_bytes: Memory of the tensor.
        memory: Tells memory apart: two tensors in the same memory, as a Record right behind another saves them,
            take it once.
    """

    first: int
    last: int
    size_bytes: int
    memory: int


def peak_bytes(holds: Iterable[Hold]) -> int:
    """Find the most memory that is held at any moment.

    Args:
        holds: The tensors; those of one Record and several Applies overlap, and count once.

    Example:
        >>> peak_bytes([Hold(0, 4, 100, 1), Hold(2, 6, 50, 2), Hold(5, 7, 80, 3)])
        150
    """
    events: list[tuple[int, int, Hold]] = []
    for hold in holds:
        # At the row of an Apply its tensor is still there: what ends comes behind what begins.
        events += [(hold.first, 0, hold), (hold.last, 1, hold)]
    events.sort(key=lambda event: event[:2])
    users: Counter[int] = Counter()
    sizes: dict[int, int] = {}
    held = peak = 0
    for _, is_end, hold in events:
        users[hold.memory] += -1 if is_end else 1
        before = sizes.pop(hold.memory, 0)
        if users[hold.memory]:
            # Of two views of one memory the larger counts.
            sizes[hold.memory] = max(before, hold.size_bytes)
        held += sizes.get(hold.memory, 0) - before
        peak = max(peak, held)
    return peak
