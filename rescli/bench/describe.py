"""What is to be said of a block before it runs: its type, its batch, and what will spoil the measurement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from rescli.bench.denormal import denormals
from rescli.bench.environment import usable_cores
from rescli.bench.modes import takes_channels_last
from rescli.bench.result import BenchWarning
from rescli.bench.variant import settings_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rescli.bench.settings import Settings
    from rescli.bench.variant import Variant
    from rescli.spec.prepare import PreparedBlock


def shared_warnings(variant: Variant, settings: Settings) -> Iterator[BenchWarning]:
    """Find what a reader should know of every row of a variant.

    Args:
        variant: What is measured.
        settings: How.
    """
    block = variant.block
    slow = denormals(block.module, block.inputs)
    if slow:
        where = max(slow, key=lambda name: slow[name])
        yield BenchWarning("denormal", {"count": sum(slow.values()), "where": where, "places": len(slow)})
    settings = settings_of(variant, settings)
    workers = settings.workers if settings.peers is None else settings.peers.place.local_size
    threads, cores = torch.get_num_threads(), usable_cores()
    if workers * threads > cores and settings.devices[0].type == "cpu":
        yield BenchWarning("oversubscribed", {"workers": workers, "threads": threads, "cores": cores})
    if settings.modes.parallel == "dp" and workers == 1:
        yield BenchWarning("one-device", {"device": str(settings.devices[0])})
    if settings.modes.channels_last and not takes_channels_last(block.inputs):
        yield BenchWarning("no-channels")
    if variant.own_inputs:
        shapes = ", ".join("x".join(map(str, tensor.shape)) for tensor in block.inputs)
        yield BenchWarning("other-inputs", {"target": block.target, "shapes": shapes})


def dtype_of(block: PreparedBlock) -> str:
    """Name the floating point type of a block, as ``float32``.

    Args:
        block: A block with its inputs; if neither has one, the type of the inputs is taken.
    """
    return str(_dtype(block)).removeprefix("torch.")


def computing_dtype(block: PreparedBlock, settings: Settings) -> torch.dtype:
    """Give the type that matrices are multiplied in.

    Args:
        block: A block with its inputs.
        settings: Says whether autocast chooses another.
    """
    return settings.modes.autocast_dtype(settings.devices[0]) or _dtype(block)


def batch_size_of(block: PreparedBlock) -> int:
    """Give how many items the first input has; 1 where it has no dimension to count them.

    Args:
        block: A block with its inputs.
    """
    if not block.inputs or block.inputs[0].dim() <= block.batch_dim:
        return 1
    return int(block.inputs[0].size(block.batch_dim))


def _dtype(block: PreparedBlock) -> torch.dtype:
    tensors = (*block.module.parameters(), *block.inputs)
    floating = [tensor.dtype for tensor in tensors if tensor.is_floating_point()]
    dtypes = floating or [tensor.dtype for tensor in block.inputs]
    return dtypes[0] if dtypes else torch.float32
