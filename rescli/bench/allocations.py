"""How much memory one call takes on the CPU: every allocation that PyTorch makes, in order.

The process's resident size would say it too, in pages and with whatever the C library keeps for later, which for
small blocks is more than the block takes. PyTorch's profiler reports each allocation and release of its CPU
allocator, temporaries inside an operation included, so that the peak is exact to the byte and no process of its own
is needed. What libraries take for themselves (oneDNN's scratch memory) goes past that allocator and is not seen.
"""

from __future__ import annotations

import contextlib
import gc
import os
from typing import TYPE_CHECKING

from torch.autograd.profiler import profile, record_function

from rescli.bench.memory import MemoryUse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rescli.bench.result import PassName
    from rescli.bench.subject import Exercise

_MARK = "rescli.mark"
_MEMORY = "[memory]"
# The profiler announces its start and end on stderr unless told to be silent.
_LOG_LEVEL = "KINETO_LOG_LEVEL"
_SILENT = "99"


def trace_memory(exercise: Exercise) -> dict[PassName, MemoryUse]:
    """Run one call under the profiler and add up the allocations between its marks.

    Args:
        exercise: What to call. What it keeps from an earlier call is not counted, nor is it noticed when that is
            released: hand over one that has not been called.

    Raises:
        RuntimeError: Another profiler is running.
    """
    with _silent_profiler(), _no_collections(), profile(profile_memory=True) as profiler:
        exercise.run(1, _mark)
    events = profiler.kineto_results.events()
    amounts = [
        (event.start_ns(), None if event.name() == _MARK else event.nbytes())
        for event in events
        if event.name() in (_MARK, _MEMORY)
    ]
    # Stable: what happened in the same nanosecond stays in the order in which it was reported.
    amounts.sort(key=lambda amount: amount[0])
    peaks, left = add_up_allocations([amount for _, amount in amounts])
    # What led up to the first mark belongs to no pass.
    intervals = peaks[1:]
    return {
        name: MemoryUse(max(intervals[place] for place in places), left)
        for name, places in exercise.parts.items()
    }


def add_up_allocations(amounts: Sequence[int | None]) -> tuple[list[int], int]:
    """Follow how much is taken.

    Args:
        amounts: Bytes taken (above 0) and given back (below 0), in order; None where a mark stands.

    Returns:
        The most that was taken at once between the beginning and the first mark, between each mark and the next
        and so on up to the last mark; and what is still taken at the end.

    Example:
        >>> add_up_allocations([8, None, 100, -100, 20, None, -20])
        ([8, 108], 8)
    """
    taken = peak = 0
    peaks: list[int] = []
    for amount in amounts:
        if amount is None:
            peaks.append(peak)
            peak = taken
        else:
            taken += amount
            peak = max(peak, taken)
    return peaks, taken


def _mark() -> None:
    with record_function(_MARK):
        pass


@contextlib.contextmanager
def _no_collections() -> Iterator[None]:
    """Keep garbage of earlier from being collected meanwhile: it would look like memory that is given back."""
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


@contextlib.contextmanager
def _silent_profiler() -> Iterator[None]:
    before = os.environ.get(_LOG_LEVEL)
    os.environ[_LOG_LEVEL] = before or _SILENT
    try:
        yield
    finally:
        if before is None:
            del os.environ[_LOG_LEVEL]
