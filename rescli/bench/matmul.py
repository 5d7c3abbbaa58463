"""How fast this machine multiplies matrices, to hold a block's own rate against."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from rescli.bench.clock import Clock

_SMALLEST, _LARGEST = 256, 8192
_REPETITIONS = 5
# Larger matrices are tried while one product is shorter than this: then starting it no longer matters.
_LONG_ENOUGH_S = 0.004


def matmul_rate(device: torch.device, dtype: torch.dtype, clock: Clock) -> float | None:
    """Measure the most floating point operations a second that a square matrix product reaches.

    It takes a fraction of a second, with the thread setting of the moment.

    Args:
        device: Where to multiply.
        dtype: Type of the matrices.
        clock: Times the device.

    Returns:
        The best of several sizes and repetitions; None where the type cannot be multiplied or the clock stands
        still.
    """
    best: float | None = None
    size = _SMALLEST
    try:
        while size <= _LARGEST:
            matrix = torch.ones(size, size, device=device, dtype=dtype)
            shortest_s = _shortest_s(partial(torch.mm, matrix, matrix), clock)
            if shortest_s <= 0:
                return None
            best = max(best or 0.0, 2 * size**3 / shortest_s)
            if shortest_s >= _LONG_ENOUGH_S:
                break
            size *= 2
    except (RuntimeError, MemoryError):  # no product of this type, or no room for a larger one
        return best
    return best


def _shortest_s(multiply: Callable[[], object], clock: Clock) -> float:
    multiply()
    shortest_s = float("inf")
    for _ in range(_REPETITIONS):
        clock.begin()
        clock.mark()
        multiply()
        clock.mark()
        shortest_s = min(shortest_s, *clock.end().intervals_s)
    return shortest_s
