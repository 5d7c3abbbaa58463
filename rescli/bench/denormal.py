"""Numbers so close to zero that a CPU computes with them a hundred times slower."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn.parameter import is_lazy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor, nn

# float16 is left out: it is widened for computing, and its small numbers are normal ones there.
_SLOW = (torch.float32, torch.float64, torch.bfloat16)


def denormals(module: nn.Module, inputs: Sequence[Tensor]) -> dict[str, int]:
    """Count the denormal values among parameters, buffers and inputs on the CPU.

    Args:
        module: Any module.
        inputs: Its inputs.

    Returns:
        How many there are, by name (``0.weight``, ``input 0``), only where there are any. Nothing at all if
        this process flushes denormals to zero, as ``torch.set_flush_denormal(True)`` makes it.

    Example:
        >>> layer = torch.nn.Linear(2, 2, bias=False)
        >>> _ = torch.nn.init.constant_(layer.weight, 1e-41)
        >>> denormals(layer, ())
        {'weight': 4}
    """
    if _are_flushed():
        return {}
    counts = {name: _count(tensor) for name, tensor in _named_tensors(module, inputs) if _can_be_slow(tensor)}
    return {name: count for name, count in counts.items() if count}


def _named_tensors(module: nn.Module, inputs: Sequence[Tensor]) -> Iterator[tuple[str, Tensor]]:
    yield from module.named_parameters()
    yield from module.named_buffers()
    yield from ((f"input {place}", tensor) for place, tensor in enumerate(inputs))


def _can_be_slow(tensor: Tensor) -> bool:
    return tensor.device.type == "cpu" and tensor.dtype in _SLOW and not is_lazy(tensor)


def _count(tensor: Tensor) -> int:
    size = tensor.detach().abs()
    return int(((size > 0) & (size < torch.finfo(tensor.dtype).tiny)).sum())


def _are_flushed() -> bool:
    return bool(torch.tensor(1e-41) * 1 == 0)
