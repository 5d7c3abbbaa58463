"""How a batch is spread over several devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch


def spread(module: nn.Module, devices: Sequence[torch.device]) -> nn.Module:
    """Make a module that splits its batch over these GPUs, by ``nn.DataParallel``.

    Args:
        module: A module on the first of the devices. Its batch is dimension 0.
        devices: The GPUs; the outputs arrive on the first.
    """
    return nn.DataParallel(module, device_ids=[device.index for device in devices])
