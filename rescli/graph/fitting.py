"""Inputs that fit where one did not: sizes that halving and doubling bring back as they were."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rescli.graph.diagnostics.evidence import FittingInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rescli.graph.model import Failure, LayerFact, Shape


def fitting_input(
    layers: Sequence[LayerFact],
    failure: Failure,
    inputs: Sequence[object],
    runs: Callable[[Sequence[object]], bool],
) -> FittingInput | None:
    """Find inputs near the given one for which an Apply that failed does not fail.

    A network that halves 100 three times has 12, and doubling gives 96: not what was recorded. Only
    multiples of 8 come back as they were. What is proposed has been run.

    Args:
        layers: The rows of the run that failed.
        failure: Where it stopped.
        inputs: What it was run on; the first is the one that is resized.
        runs: Says whether the block runs on other inputs.

    Returns:
        None if the difference is of another kind, or nothing near fits.
    """
    given = inputs[0] if inputs else None
    recorded, current = failure.recorded_shape, failure.current_shape
    if not isinstance(given, Tensor) or recorded is None or current is None:
        return None
    shape = tuple(given.shape)
    if not len(shape) == len(recorded) == len(current) or recorded[0] != current[0]:
        return None
    differing = [dim for dim in range(2, len(shape)) if recorded[dim] != current[dim]]
    multiple = max((_total_stride(layers, shape, dim) for dim in differing), default=1)
    dims = tuple(dim for dim in range(2, len(shape)) if shape[dim] % multiple)
    fitting = []
    for candidate in _candidates(shape, dims, multiple):
        resized = torch.zeros(candidate, dtype=given.dtype, device=given.device)
        if runs([resized, *inputs[1:]]):
            fitting.append(candidate)
    return FittingInput(shape, multiple, dims, tuple(fitting)) if fitting else None


def _total_stride(layers: Sequence[LayerFact], shape: Shape, dim: int) -> int:
    """Work out by how much the block shrinks a dimension at its narrowest."""
    size, stride, largest = shape[dim], Fraction(1), Fraction(1)
    for row in layers:
        # The row of a block has the shape of its end, which its layers tell as well.
        if row.kind == "block" or row.output_shape is None or len(row.output_shape) != len(shape):
            continue
        now = row.output_shape[dim]
        if not now or not size:
            return 1
        stride *= _step(size, now) if now < size else Fraction(1, round(now / size))
        largest, size = max(largest, stride), now
    return int(largest)


def _step(size: int, now: int) -> int:
    """Give the smallest stride that leads from one size to another; 1 where a border was lost, as 100 to 98."""
    rounding_down, rounding_up = size // (now + 1) + 1, -(-size // now)
    steps = [rounding_down] if size // rounding_down == now else []
    steps += [rounding_up] if -(-size // rounding_up) == now else []
    return min((step for step in steps if step > 1), default=1)


def _candidates(shape: Shape, dims: Sequence[int], multiple: int) -> Iterator[Shape]:
    """Give the nearest shape below and the nearest above whose sizes are multiples."""
    if not dims:
        return
    for above in (0, 1):
        sizes = list(shape)
        for dim in dims:
            sizes[dim] = (shape[dim] // multiple + above) * multiple
        if all(sizes):
            yield tuple(sizes)
