"""How much memory one call of each pass takes, in a run of its own beside the timed ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rescli.bench.result import PassName
    from rescli.bench.subject import Exercise


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Memory of one pass.

    Args:
        peak_bytes: Most that was taken at once, beyond what was taken before the call.
        retained_bytes: What is still taken when the call's outputs and gradients are gone.
    """

    peak_bytes: int
    retained_bytes: int


class Allocator(Protocol):
    """The memory statistics of the devices a pass runs on."""

    def settle(self) -> None:
        """Wait until the devices have done everything they were given."""
        ...

    def allocated_bytes(self) -> int:
        """Give what is taken now."""
        ...

    def peak_bytes(self) -> int:
        """Give the most that was taken since the last reset."""
        ...

    def reset_peak(self) -> None:
        """Begin a new peak at what is taken now."""
        ...


def measure_memory(exercise: Exercise, allocator: Allocator) -> dict[PassName, MemoryUse]:
    """Run one call and read the memory statistics at its marks.

    Args:
        exercise: What to call.
        allocator: The statistics.
    """
    allocator.settle()
    before = allocator.allocated_bytes()
    peaks: list[int] = []

    def read() -> None:
        peaks.append(allocator.peak_bytes() - before)
        allocator.reset_peak()

    exercise.run(1, read)
    allocator.settle()
    retained = allocator.allocated_bytes() - before
    # What led up to the first mark belongs to no pass.
    intervals = peaks[1:]
    return {
        name: MemoryUse(max(intervals[place] for place in places), retained)
        for name, places in exercise.parts.items()
    }


def add_memory(uses: Sequence[Mapping[PassName, MemoryUse]]) -> dict[PassName, MemoryUse]:
    """Add up what several processes take, as if their peaks came at the same moment.

    Args:
        uses: What each process takes, by pass; a pass that is not known of all is left out.

    Example:
        >>> add_memory([{"step": MemoryUse(8, 0)}, {"step": MemoryUse(4, 1)}])
        {'step': MemoryUse(peak_bytes=12, retained_bytes=1)}
    """
    known = [name for name in uses[0] if all(name in use for use in uses)] if uses else []
    return {
        name: MemoryUse(
            sum(use[name].peak_bytes for use in uses), sum(use[name].retained_bytes for use in uses)
        )
        for name in known
    }


class CudaAllocator:
    """The statistics of PyTorch's caching allocator, over several GPUs if need be.

    Args:
        devices: The GPUs; the peaks of several are added, as if they came at the same moment.
    """

    def __init__(self, devices: Sequence[torch.device]) -> None:
        self._devices = tuple(devices)

    def settle(self) -> None:
        """Synchronise every device."""
        for device in self._devices:
            torch.cuda.synchronize(device)

    def allocated_bytes(self) -> int:
        """Give what tensors take now."""
        return sum(torch.cuda.memory_allocated(device) for device in self._devices)

    def peak_bytes(self) -> int:
        """Give the most that tensors took since the last reset."""
        return sum(torch.cuda.max_memory_allocated(device) for device in self._devices)

    def reset_peak(self) -> None:
        """Begin a new peak."""
        for device in self._devices:
            torch.cuda.reset_peak_memory_stats(device)
