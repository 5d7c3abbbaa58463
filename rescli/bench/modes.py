"""How a block is run, beside what it computes: channels last, compiled, over several GPUs, under autocast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from rescli.bench.parallel import distribute, settle, spread

if TYPE_CHECKING:
    from collections.abc import Sequence

_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


@dataclass(frozen=True, slots=True)
class Modes:
    """What is done to the copy of a block that is measured.

    Args:
        amp: Whether it runs under autocast, in the type that PyTorch chooses for the device.
        compiled: Whether ``torch.compile`` makes it.
        channels_last: Whether weights and inputs of four or five dimensions lie channels last.
        parallel: ``none``, ``dp`` for ``nn.DataParallel`` or ``ddp`` for ``DistributedDataParallel``.
    """

    amp: bool = False
    compiled: bool = False
    channels_last: bool = False
    parallel: str = "none"

    def autocast_dtype(self, device: torch.device) -> torch.dtype | None:
        """Give the type that autocast computes in, or None without it.

        Args:
            device: Where the block runs.
        """
        return torch.get_autocast_dtype(device.type) if self.amp else None


class Autocast(nn.Module):
    """A module that is called under autocast; each call enters it anew, as a training loop does.

    Args:
        module: What is called.
        device: Where it runs.
        dtype: The type to compute in.
    """

    def __init__(self, module: nn.Module, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__()
        self.module = module
        self._device = device.type
        self._dtype = dtype

    def forward(self, *inputs: Any) -> Any:  # noqa: ANN401 - a block takes and returns anything
        """Call the module."""
        with torch.autocast(self._device, dtype=self._dtype):
            return self.module(*inputs)


def dress(
    module: nn.Module, inputs: Sequence[Tensor], modes: Modes, devices: Sequence[torch.device]
) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Make of a copy of a block and its inputs what is measured.

    Args:
        module: A copy that nobody else uses; its weights may be laid out anew.
        inputs: Copies of its inputs.
        modes: What is to be done.
        devices: Where it runs; more than one only with ``dp``.
    """
    if modes.compiled or modes.parallel != "none":
        settle(module, inputs)
    if modes.channels_last:
        inputs = put_channels_last(module, inputs)
    if modes.compiled:
        compiled = torch.compile(module)
        # What has no type in torch: a compiled module is a module.
        module = compiled if isinstance(compiled, nn.Module) else module
    if modes.parallel == "dp":
        module = spread(module, devices)
    if modes.parallel == "ddp":
        module = distribute(module, devices[0])
    dtype = modes.autocast_dtype(devices[0])
    return module if dtype is None else Autocast(module, devices[0], dtype), tuple(inputs)


def put_channels_last(module: nn.Module, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Lay out weights of four or five dimensions channels last, in place, and give the inputs so.

    Args:
        module: A module whose weights may be laid out anew.
        inputs: Its inputs; those that have fewer dimensions stay as they are.

    Example:
        >>> layer = nn.Conv2d(3, 8, 3)
        >>> (x,) = put_channels_last(layer, [torch.zeros(2, 3, 8, 8)])
        >>> x.stride()
        (192, 1, 24, 3)
    """
    for tensor in (*module.parameters(), *module.buffers()):
        if not nn.parameter.is_lazy(tensor):
            tensor.data = _channels_last(tensor.data)
    return tuple(_channels_last(tensor) for tensor in inputs)


def takes_channels_last(inputs: Sequence[Tensor]) -> bool:
    """Say whether an input has the four or five dimensions that channels last is about.

    Args:
        inputs: Inputs of a block.
    """
    return any(tensor.dim() in _CHANNELS_LAST for tensor in inputs)


def _channels_last(tensor: Tensor) -> Tensor:
    layout = _CHANNELS_LAST.get(tensor.dim())
    return tensor if layout is None else tensor.contiguous(memory_format=layout)
