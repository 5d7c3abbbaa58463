"""An input for each thread: other values and another batch size, so that no mix-up goes unseen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch

from rescli.errors import SpecError
from rescli.spec.inputs import resize

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from torch import Tensor, nn


class Block(Protocol):
    """What is checked: a block as the spec room prepares it, or anything with the same attributes."""

    @property
    def name(self) -> str:
        """The variable or function it comes from."""

    @property
    def target(self) -> str:
        """The TARGET that names it."""

    @property
    def module(self) -> nn.Module:
        """The user's module."""

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Its example inputs."""

    @property
    def batch_dim(self) -> int:
        """The dimension of the inputs that counts the items of the batch."""

    def resized(self, batch_size: int) -> tuple[Tensor, ...]:
        """Give the example inputs another batch size."""


@dataclass(frozen=True, slots=True)
class GivenBlock:
    """A module and what it is called with, where no spec has prepared them.

    Args:
        module: The module.
        inputs: The positional arguments of its forward.
        batch_dim: The dimension of the inputs that counts the items of the batch.
        name: What it is called in results.
        target: What names it; the name again where there is no file.
        spec_file: The file that it comes from, if there is one.
    """

    module: nn.Module
    inputs: tuple[Tensor, ...]
    batch_dim: int
    name: str
    target: str
    spec_file: Path | None = None

    def resized(self, batch_size: int) -> tuple[Tensor, ...]:
        """Give the inputs with another batch size.

        Args:
            batch_size: How many items there are to be.
        """
        return resize(self.inputs, self.batch_dim, batch_size)


def varied_inputs(block: Block, threads: int, seed: int) -> tuple[tuple[Tensor, ...], ...]:
    """Give thread A the block's batch size, B one more, and so on; one size for all if that cannot be had.

    Args:
        block: Where the inputs come from.
        threads: How many threads there are. A thread's input does not depend on this number.
        seed: Decides the values.
    """
    dims = [value.shape[block.batch_dim] for value in block.inputs if value.dim() > block.batch_dim]
    if not dims:
        return equal_inputs(block, threads, seed)
    try:
        sizes = [block.resized(dims[0] + index) if index else block.inputs for index in range(threads)]
    except SpecError:
        return equal_inputs(block, threads, seed)
    return tuple(_own_values(own, index, seed) for index, own in enumerate(sizes))


def equal_inputs(block: Block, threads: int, seed: int) -> tuple[tuple[Tensor, ...], ...]:
    """Give every thread the block's own batch size, with values of its own.

    Args:
        block: Where the inputs come from.
        threads: How many threads there are.
        seed: Decides the values.
    """
    return tuple(_own_values(block.inputs, index, seed) for index in range(threads))


def _own_values(inputs: Sequence[Tensor], index: int, seed: int) -> tuple[Tensor, ...]:
    """Shuffle the values, so that they stay in their range, and shrink floats, so that equal ones differ."""
    generator = torch.Generator().manual_seed(1000 * seed + index)
    own = []
    for value in inputs:
        order = torch.randperm(value.numel(), generator=generator)
        shuffled = value.detach().reshape(-1)[order].reshape(value.shape)
        exact = value.is_floating_point() or value.is_complex()
        own.append(shuffled * (1 - index / 32) if exact else shuffled)
    return tuple(own)
