"""How a batch is spread over several devices or processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parameter import is_lazy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from rescli.bench.place import Place


def spread(module: nn.Module, devices: Sequence[torch.device]) -> nn.Module:
    """Make a module that splits its batch over these GPUs, by ``nn.DataParallel``.

    Args:
        module: A module on the first of the devices. Its batch is dimension 0.
        devices: The GPUs; the outputs arrive on the first.
    """
    return nn.DataParallel(module, device_ids=[device.index for device in devices])


def distribute(module: nn.Module, device: torch.device) -> nn.Module:
    """Make a module that averages its gradients with those of the other processes.

    Args:
        module: A module on the device; it gets the weights of the first process.
        device: Where this process computes.

    Raises:
        RuntimeError: No parameter takes a gradient, so there is nothing to average.
    """
    return DistributedDataParallel(module, device_ids=[device.index] if device.type == "cuda" else None)


def warm_up_distribution(device: torch.device) -> None:
    """Let PyTorch import what it needs and connect the processes, before anybody's time is running.

    Args:
        device: Where this process computes.
    """
    module = distribute(nn.Linear(1, 1).to(device), device)
    module(torch.ones(1, 1, device=device)).sum().backward()


def share_of(inputs: Sequence[Tensor], batch_dim: int, place: Place) -> tuple[Tensor, ...]:
    """Give a process its part of a batch; where it does not divide evenly, the first ones get an item more.

    Args:
        inputs: The whole batch. What does not count the same items along ``batch_dim`` as the first, as a mask or
            a temperature, goes to everybody.
        batch_dim: The dimension that counts the items.
        place: The process.

    Raises:
        ValueError: There are more processes than items.
    """
    if not inputs or inputs[0].dim() <= batch_dim:
        return tuple(inputs)
    items = inputs[0].size(batch_dim)
    if items < place.size:
        raise ValueError(f"a batch of {items} does not have an item for each of {place.size} processes")

    def part_of(tensor: Tensor) -> Tensor:
        if tensor.dim() <= batch_dim or tensor.size(batch_dim) != items:
            return tensor
        part = tensor.tensor_split(place.size, batch_dim)[place.rank]
        # A part along another dimension than the first is no tensor as a data loader would give it.
        return part.clone(memory_format=torch.contiguous_format)

    return tuple(map(part_of, inputs))


def settle(module: nn.Module, inputs: Sequence[Tensor]) -> None:
    """Call a module once if it has parameters without a size: copies and compilers cannot make them.

    Args:
        module: A copy that nobody else uses.
        inputs: What it takes.
    """
    if any(map(is_lazy, (*module.parameters(), *module.buffers()))):
        with torch.no_grad():
            module(*inputs)
