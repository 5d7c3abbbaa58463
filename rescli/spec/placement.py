"""Where a block lies and in which floating point type it computes."""

from __future__ import annotations

import copy

import torch
from torch import nn

from rescli.errors import HardwareError, SpecError


def find_device(text: str) -> torch.device:
    """Find the device that was asked for.

    Args:
        text: ``cpu``, ``cuda``, ``cuda:N``, ``mps``, or ``auto`` for the fastest that is there.

    Raises:
        HardwareError: It is not there; the message says what is.
    """
    if text == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "mps" if _has_mps() else "cpu")
    device = torch.device(text)
    if device.type == "cuda" and (device.index or 0) >= _gpu_count():
        raise HardwareError(
            f"--device {text} is not there: {_gpus_here()}", hint="--device cpu works everywhere"
        )
    if device.type == "mps" and not _has_mps():
        raise HardwareError(
            "--device mps is not there: this is no Mac with Metal", hint="--device cpu works everywhere"
        )
    return device


def place(block: nn.Module, *, dtype: str | None, device: torch.device) -> nn.Module:
    """Give a block the type and the device that were asked for.

    Args:
        block: The spec's own object; it stays as it is.
        dtype: The floating point type, or None to leave it.
        device: Where it is to lie; on the CPU means wherever the spec put it.

    Returns:
        The block itself if there is nothing to change, else a copy.

    Raises:
        SpecError: It has to be copied and cannot be.
    """
    if dtype is None and device.type == "cpu":
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
    return moved if device.type == "cpu" else moved.to(device=device)


def _has_mps() -> bool:
    return torch.backends.mps.is_available()


def _gpu_count() -> int:
    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def _gpus_here() -> str:
    if torch.version.cuda is None and torch.version.hip is None:
        return f"torch {torch.__version__} was built without CUDA"
    count = _gpu_count()
    if count == 0:
        return "torch finds no GPU on this machine"
    names = ", ".join(f"cuda:{index} ({torch.cuda.get_device_name(index)})" for index in range(count))
    return f"what there is: {names}"
