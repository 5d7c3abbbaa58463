"""What running statistics come to when replicas run in train mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from rescli.threads.arrange import replicate
from rescli.threads.copies import IncomparableError, copy_module
from rescli.threads.footing import size_for_replicas
from rescli.threads.outcome import call, same_bits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor, nn


def lost_statistics(
    module: nn.Module, inputs: Sequence[tuple[Tensor, ...]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Name the buffers in which the work of replicas is lost.

    Args:
        module: The module, in its own mode; copies of it run.
        inputs: The input of each replica.

    Returns:
        The buffers that hold what the first replica alone would have left, and those that hold nothing of
        any replica.

    Raises:
        IncomparableError: A forward changes no buffer, so that nothing can be lost.
    """
    with torch.no_grad():
        start = _buffers(_sized(module, inputs))
        one = _after_replicas(module, inputs, used=1)
        every = _after_replicas(module, inputs, used=len(inputs))
        serial = _after_serial(module, inputs)
    changed = [name for name, value in start.items() if not same_bits(value, serial[name])]
    if not changed:
        raise IncomparableError("a forward changes no buffer: there is no BatchNorm in train mode")
    lost = [name for name in changed if not torch.allclose(every[name], serial[name])]
    first = tuple(
        name for name in lost if same_bits(every[name], one[name]) and not same_bits(one[name], start[name])
    )
    return first, tuple(name for name in lost if name not in first)


def _after_replicas(
    module: nn.Module, inputs: Sequence[tuple[Tensor, ...]], *, used: int
) -> dict[str, Tensor]:
    copied = _sized(module, inputs)
    for replica, own in list(zip(replicate(copied, len(inputs)), inputs, strict=True))[:used]:
        call(replica, own)
    return _buffers(copied)


def _after_serial(module: nn.Module, inputs: Sequence[tuple[Tensor, ...]]) -> dict[str, Tensor]:
    copied = _sized(module, inputs)
    for own in inputs:
        call(copied, own)
    return _buffers(copied)


def _sized(module: nn.Module, inputs: Sequence[tuple[Tensor, ...]]) -> nn.Module:
    copied = copy_module(module)
    size_for_replicas(copied, inputs[0])
    return copied


def _buffers(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in module.named_buffers()}
