"""Where times come from: the host's clock, or events on the device beside it.

The engine and the passes only know the protocol :class:`Clock`; tests hand them one that runs on paper.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_MARKS_TO_COST = 101


@dataclass(frozen=True, slots=True)
class BlockTimes:
    """What a clock saw between the begin and the end of a block of iterations.

    Args:
        intervals_s: Seconds from each mark to the next.
        wall_s: Seconds on the host's clock from the first mark until the device was idle; None where the
            intervals are the host's own.
    """

    intervals_s: Sequence[float]
    wall_s: float | None = None


class Clock(Protocol):
    """Times the parts of a block of iterations, with one synchronisation for the whole block."""

    def now_s(self) -> float:
        """Give the seconds of the host's clock, for budgets."""
        ...

    def begin(self) -> None:
        """Wait until the device is idle and forget all marks."""
        ...

    def mark(self) -> None:
        """Note where a part begins or ends; never waits."""
        ...

    def end(self) -> BlockTimes:
        """Wait for the device and give the times between the marks."""
        ...


class HostClock:
    """The clock for work that is done when the call returns, as on the CPU.

    Args:
        read_ns: Gives the time in nanoseconds.
    """

    def __init__(self, read_ns: Callable[[], int] = time.perf_counter_ns) -> None:
        self._read_ns = read_ns
        self._marks_ns: list[int] = []

    def now_s(self) -> float:
        """Give the seconds of the host's clock."""
        return self._read_ns() / 1e9

    def begin(self) -> None:
        """Forget all marks."""
        self._marks_ns = []

    def mark(self) -> None:
        """Note the time."""
        self._marks_ns.append(self._read_ns())

    def end(self) -> BlockTimes:
        """Give the times between the marks."""
        marks = self._marks_ns
        return BlockTimes([(b - a) / 1e9 for a, b in pairwise(marks)])


_SameEvent = TypeVar("_SameEvent", bound="Event")


class Event(Protocol):
    """A point in a device's queue of work, as ``torch.cuda.Event(enable_timing=True)``."""

    def record(self) -> None:
        """Put the point at the end of the queue."""
        ...

    # Positional only: torch.cuda and torch.mps name the argument differently.
    def elapsed_time(self: _SameEvent, later: _SameEvent, /) -> float:  # noqa: PYI019 - not in Python 3.10
        """Give the milliseconds from this point to a later one."""
        ...


_AnyEvent = TypeVar("_AnyEvent", bound=Event)


class EventClock(Generic[_AnyEvent]):
    """The clock for work that a device does after the call has returned.

    The host synchronises before the first mark and after the last one of a block, never in between: marks are
    events in the device's own queue.

    Args:
        synchronize: Waits until the device has done everything it was given.
        new_event: Makes an event.
        read_ns: The host's clock in nanoseconds.
    """

    def __init__(
        self,
        synchronize: Callable[[], object],
        new_event: Callable[[], _AnyEvent],
        read_ns: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._synchronize = synchronize
        self._new_event = new_event
        self._read_ns = read_ns
        # Events are kept and used again: making one costs the host more than recording it.
        self._events: list[_AnyEvent] = []
        self._used = 0
        self._first_ns = 0

    def now_s(self) -> float:
        """Give the seconds of the host's clock."""
        return self._read_ns() / 1e9

    def begin(self) -> None:
        """Wait until the device is idle and forget all marks."""
        self._synchronize()
        self._used = 0

    def mark(self) -> None:
        """Record an event."""
        if self._used == 0:
            self._first_ns = self._read_ns()
        if self._used == len(self._events):
            self._events.append(self._new_event())
        self._events[self._used].record()
        self._used += 1

    def end(self) -> BlockTimes:
        """Wait for the device and give the times between the events."""
        self._synchronize()
        wall_s = (self._read_ns() - self._first_ns) / 1e9
        events = self._events[: self._used]
        # Neighbours only: the milliseconds come as 32-bit floats, which lose small differences of large times.
        intervals = [a.elapsed_time(b) / 1e3 for a, b in pairwise(events)]
        return BlockTimes(intervals, wall_s)


def clock_for(devices: Sequence[torch.device]) -> Clock:
    """Choose the clock for work on these devices.

    Args:
        devices: Where the work runs, all of one type; the output arrives on the first, and events are
            recorded there.
    """
    first = devices[0]
    if first.type == "cuda":
        return EventClock(partial(_synchronize_cuda, tuple(devices)), partial(_CudaEvent, first))
    if first.type == "mps":
        return EventClock(torch.mps.synchronize, partial(torch.mps.Event, enable_timing=True))
    return HostClock()


def mark_cost_s(clock: Clock) -> float:
    """Measure what one mark takes, which is in every interval.

    Args:
        clock: Any clock that is not in the middle of a block.
    """
    clock.begin()
    for _ in range(_MARKS_TO_COST):
        clock.mark()
    return median(clock.end().intervals_s)


def _synchronize_cuda(devices: Sequence[torch.device]) -> None:
    for device in devices:
        torch.cuda.synchronize(device)


class _CudaEvent:
    """A timing event that is recorded in the queue of one device, whichever is current."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call] # torch has no types here

    def record(self) -> None:
        self._event.record(torch.cuda.current_stream(self._device))

    def elapsed_time(self, later: _CudaEvent, /) -> float:
        return float(self._event.elapsed_time(later._event))
