"""Which GPUs a batch is spread over."""

from __future__ import annotations

import torch

from rescli.errors import CommandLineError, HardwareError
from rescli.spec.device import Inventory, choose_device, what_is_there, why_missing


def choose_parallel_devices(
    device: str, indices: tuple[int, ...], inventory: Inventory
) -> tuple[torch.device, ...]:
    """Find the GPUs that DataParallel spreads a batch over.

    Args:
        device: The value of ``--device``.
        indices: The value of ``--devices``; empty for all there are.
        inventory: What is there.

    Raises:
        CommandLineError: The options contradict each other.
        HardwareError: There is no GPU, or not the ones asked for.

    Example:
        >>> choose_parallel_devices("auto", (), Inventory("2.11.0", cuda_built=True, gpus=2, mps=False))
        (device(type='cuda', index=0), device(type='cuda', index=1))
    """
    if not inventory.gpus:
        raise HardwareError(
            f"--parallel dp: DataParallel spreads a batch over GPUs, and {why_missing('cuda', inventory)}",
            hint="rescli check-threads runs the same block on DataParallel-style replicas on the CPU",
        )
    if device in ("cpu", "mps"):
        raise CommandLineError(
            f"--parallel dp --device {device}: DataParallel runs on GPUs only", hint="leave --device out"
        )
    first = choose_device(device, inventory)
    others = tuple(index for index in range(inventory.gpus) if index != first.index)
    chosen = indices or (first.index, *others)
    missing = [index for index in chosen if index >= inventory.gpus]
    if missing:
        raise HardwareError(
            f"--devices {_joined(indices)}: there is no cuda:{missing[0]}", hint=what_is_there(inventory)
        )
    if ":" in device and chosen[0] != first.index:
        raise CommandLineError(
            f"--device {device} --devices {_joined(indices)}: the output arrives on the first of --devices",
            hint="give only --devices",
        )
    return tuple(torch.device(f"cuda:{index}") for index in chosen)


def parse_indices(text: str) -> tuple[int, ...]:
    """Read the value of ``--devices``.

    Args:
        text: Numbers of GPUs joined by commas.

    Raises:
        CommandLineError: The text has another form, or names a GPU twice.

    Example:
        >>> parse_indices("0,1")
        (0, 1)
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise CommandLineError(
            f"--devices {text}: expected numbers of GPUs", hint="for instance --devices 0,1"
        )
    indices = tuple(int(part) for part in parts)
    if len(set(indices)) < len(indices):
        raise CommandLineError(f"--devices {text}: a GPU is named twice", hint="name each GPU once")
    return indices


def _joined(indices: tuple[int, ...]) -> str:
    return ",".join(map(str, indices))
