"""Smaller inputs for a block whose own take long, so that there is time for schedules.

A race is a matter of who writes and reads in which order; the sizes of the tensors do not decide it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from rescli.graph.flops import FlopMeter
from rescli.threads.copies import copy_module
from rescli.threads.inputs import GivenBlock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor, nn

    from rescli.threads.inputs import Block

# With so many operations a forward and its gradients take one thread some 20 ms.
MOST_FLOPS = 250_000_000
# No dimension is cut to less.
_LEAST_SIZE = 16


def cut_block(block: Block) -> tuple[Block, str]:
    """Give a block whose forward takes long smaller inputs, unless they were asked for.

    Halved are the dimensions along which the block takes any length: height and width, time, tokens. Which
    size is taken follows from counted operations, never from a clock, so that a replay has the same one.

    Args:
        block: The block. Only one that says that its inputs are its spec's, or worked out, is cut.

    Returns:
        The block that is to be checked, and what to tell of it; empty if it is as it was.

    Raises:
        IncomparableError: The module cannot be copied.
    """
    if getattr(block, "origin", "option") == "option" or not block.inputs:
        return block, ""
    trial = _Trial(block.module)
    lengths = [
        (dim, most)
        for dim, size in enumerate(block.inputs[0].shape)
        if dim != block.batch_dim and (most := _halvings(size)) and trial.takes_less(block.inputs, dim, most)
    ]
    inputs = _largest_within(trial, list(_ladder(block.inputs, lengths)))
    if inputs[0].shape == block.inputs[0].shape:
        return block, ""
    smaller, own = tuple(inputs[0].shape), tuple(block.inputs[0].shape)
    note = (
        f"on an input {smaller} instead of {own}, which leaves time for more schedules (--input keeps a size)"
    )
    given = GivenBlock(
        block.module, inputs, block.batch_dim, block.name, block.target, getattr(block, "spec_file", None)
    )
    return given, note


def _halvings(size: int) -> int:
    """Say how often a dimension can be halved."""
    halvings = 0
    while size % 2 == 0 and size // 2 >= _LEAST_SIZE:
        size //= 2
        halvings += 1
    return halvings


def _ladder(inputs: tuple[Tensor, ...], lengths: Sequence[tuple[int, int]]) -> Iterator[tuple[Tensor, ...]]:
    """Give the inputs cut as far as possible, then less and less far, and last as they are."""
    for halvings in range(max((most for _, most in lengths), default=0), -1, -1):
        smaller = inputs
        for dim, most in lengths:
            smaller = _cut(smaller, dim, min(halvings, most))
        yield smaller


def _cut(inputs: tuple[Tensor, ...], dim: int, halvings: int) -> tuple[Tensor, ...]:
    """Cut one dimension of the inputs that have it in the size of the first."""
    size = inputs[0].shape[dim]
    return tuple(
        value.narrow(dim, 0, size >> halvings) if value.dim() > dim and value.shape[dim] == size else value
        for value in inputs
    )


def _largest_within(trial: _Trial, ladder: Sequence[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """Take the largest inputs that are cheap enough or, if none are, the smallest that the block takes.

    The next larger ones are judged by those that ran, in proportion to their length: too large ones never run.
    """
    taken, flops = ladder[-1], None
    for inputs in ladder:
        if flops is not None:
            if flops * inputs[0].numel() > MOST_FLOPS * taken[0].numel():
                break
            if inputs is ladder[-1]:
                return inputs
        counted = trial.flops(inputs) if inputs is not ladder[-1] else None
        if counted is not None and (flops is None or counted <= MOST_FLOPS):
            taken, flops = inputs, counted
    return taken


@dataclass(slots=True)
class _Trial:
    """Runs copies of a module to see which inputs it takes.

    Args:
        module: The module.
        copied: The copy in use. After an exception another one is made: locks may still be taken in it.
    """

    module: nn.Module
    copied: nn.Module | None = None

    def flops(self, inputs: tuple[Tensor, ...]) -> int | None:
        """Count the operations of a forward; None if it raises."""
        copied, self.copied = self.copied or copy_module(self.module), None
        try:
            with torch.no_grad(), FlopMeter(known=()) as meter:
                copied(*(value.clone() for value in inputs))
        except Exception:  # noqa: BLE001 - whatever the module raises, it does not take these inputs
            return None
        self.copied = copied
        return int(meter.account.flops)

    def takes_less(self, inputs: tuple[Tensor, ...], dim: int, most: int) -> bool:
        """Tell whether the module takes less along one dimension, the others as they are."""
        return any(self.flops(_cut(inputs, dim, halvings)) is not None for halvings in range(most, 0, -1))
