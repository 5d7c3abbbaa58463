"""Which devices a batch is spread over."""

from __future__ import annotations

import torch

from rescli.errors import CommandLineError, HardwareError
from rescli.spec.device import Inventory, choose_device, what_is_there, why_missing

_PROCESSES_ON_CPU = 2


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
            hint="what the CPU can do: --parallel ddp measures processes that share a batch, and rescli check-threads "
            "runs the block on DataParallel-style replicas",
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


def choose_process_devices(
    device: str, indices: tuple[int, ...], processes: int | None, inventory: Inventory
) -> tuple[torch.device, ...]:
    """Find the device of each process of DistributedDataParallel: the CPU for all, or a GPU of its own for each.

    Args:
        device: The value of ``--device``.
        indices: The value of ``--devices``; empty for the first GPUs.
        processes: The value of ``--processes`` on this machine; None for one a GPU, or two on the CPU.
        inventory: What is there.

    Raises:
        CommandLineError: The options contradict each other.
        HardwareError: There are fewer GPUs than processes, or not the ones asked for.

    Example:
        >>> choose_process_devices("cpu", (), None, Inventory("2.11.0", cuda_built=False, gpus=0, mps=False))
        (device(type='cpu'), device(type='cpu'))
    """
    if device == "mps" or ":" in device:
        raise CommandLineError(
            f"--parallel ddp --device {device}: each process has a device of its own",
            hint="--device cpu, or --device cuda with --devices 0,1",
        )
    # An Apple GPU is alone, and has nothing to exchange gradients by.
    kind = "cpu" if device == "auto" and not inventory.gpus else choose_device(device, inventory).type
    if kind == "cpu":
        if indices:
            raise HardwareError(
                f"--devices {_joined(indices)}: these are numbers of GPUs, and the processes run on the CPU",
                hint="leave --devices out, or give --device cuda where there are GPUs",
            )
        return (torch.device("cpu"),) * (processes or _PROCESSES_ON_CPU)
    chosen = indices or tuple(range(inventory.gpus))
    missing = [index for index in chosen if index >= inventory.gpus]
    if missing:
        raise HardwareError(
            f"--devices {_joined(indices)}: there is no cuda:{missing[0]}", hint=what_is_there(inventory)
        )
    wanted = processes or len(chosen)
    if wanted > len(chosen):
        raise HardwareError(
            f"--processes {wanted}: each needs a GPU of its own, and there are {len(chosen)}",
            hint=f"--processes {len(chosen)}, or --device cpu",
        )
    return tuple(torch.device(f"cuda:{index}") for index in chosen[:wanted])


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
