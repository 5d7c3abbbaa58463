"""Where a block lies and in which floating point type it computes."""

from __future__ import annotations

import copy

import torch
from torch import nn

from rescli.errors import SpecError


def place(block: nn.Module, *, dtype: str | None, device: torch.device) -> nn.Module:
    """Give a block the type and the device that were asked for.

    Args:
        block: The spec's own object; it stays as it is.
        dtype: The floating point type, or None to leave it.
        device: Where it is to lie; on the CPU means wherever the spec put it. What has no data stays without.

    Returns:
        The block itself if there is nothing to change, else a copy.

    Raises:
        SpecError: It has to be copied and cannot be.
    """
    stays = device.type == "cpu" or any(parameter.is_meta for parameter in block.parameters())
    if dtype is None and stays:
        return block
    try:
        moved = copy.deepcopy(block)
    except Exception as error:
        raise SpecError(
            f"{type(block).__name__} cannot be copied, which another type or device needs: {error}",
            hint="leave out --dtype and --device, or build the block in a function",
        ) from error
    if dtype is not None:
        moved = moved.to(dtype=getattr(torch, dtype))
    return moved if stays else moved.to(device=device)
