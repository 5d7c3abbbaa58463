"""Which devices a run uses, and the sentence for those that are not there."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from rescli.errors import CommandLineError, HardwareError


@dataclass(frozen=True, slots=True)
class Inventory:
    """What this machine and this build of PyTorch offer beside the CPU.

    Args:
        torch: Version of PyTorch with its build.
        cuda_built: Whether this PyTorch can drive GPUs at all.
        gpus: How many GPUs it sees.
        mps: Whether Apple's GPU is there.
    """

    torch: str
    cuda_built: bool
    gpus: int
    mps: bool

    @classmethod
    def look(cls) -> Inventory:
        """Look at this machine."""
        return cls(
            torch=torch.__version__,
            cuda_built=torch.version.cuda is not None or torch.version.hip is not None,
            gpus=torch.cuda.device_count() if torch.cuda.is_available() else 0,
            mps=torch.backends.mps.is_available(),
        )

    def names(self) -> tuple[str, ...]:
        """Give the values of ``--device`` that work here.

        Example:
            >>> Inventory("2.11.0", cuda_built=True, gpus=2, mps=False).names()
            ('cpu', 'cuda:0', 'cuda:1')
        """
        return ("cpu", *(f"cuda:{index}" for index in range(self.gpus)), *(["mps"] if self.mps else []))


def choose_device(text: str, inventory: Inventory) -> torch.device:
    """Find the device that is meant.

    Args:
        text: ``auto`` (a GPU if there is one), ``cpu``, ``cuda`` (the first GPU), ``cuda:N`` or ``mps``.
        inventory: What is there.

    Raises:
        CommandLineError: The text is none of these.
        HardwareError: This machine has no such device.

    Example:
        >>> choose_device("auto", Inventory("2.11.0", cuda_built=True, gpus=1, mps=False))
        device(type='cuda', index=0)
    """
    if text == "auto":
        return torch.device("cuda:0" if inventory.gpus else "mps" if inventory.mps else "cpu")
    kind, colon, index = text.partition(":")
    if kind not in ("cpu", "cuda", "mps") or (colon and (kind != "cuda" or not index.isdecimal())):
        raise CommandLineError(
            f"--device {text}: this is no device that rescli knows",
            hint="one of auto, cpu, cuda, cuda:1, mps",
        )
    device = torch.device(f"cuda:{index or 0}" if kind == "cuda" else kind)
    if str(device) not in inventory.names():
        raise HardwareError(
            f"--device {text}: {_why_missing(kind, inventory)}", hint=_what_is_there(inventory)
        )
    return device


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
            f"--parallel dp: DataParallel spreads a batch over GPUs, and {_why_missing('cuda', inventory)}",
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
            f"--devices {_joined(indices)}: there is no cuda:{missing[0]}", hint=_what_is_there(inventory)
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


def _why_missing(kind: str, inventory: Inventory) -> str:
    if kind == "cuda" and not inventory.cuda_built:
        return f"this PyTorch ({inventory.torch}) is built without CUDA"
    if kind == "cuda" and not inventory.gpus:
        return f"PyTorch {inventory.torch} sees no GPU on this machine"
    if kind == "mps":
        return f"PyTorch {inventory.torch} sees no Apple GPU on this machine"
    return f"PyTorch {inventory.torch} sees no GPU of that number on this machine"


def _what_is_there(inventory: Inventory) -> str:
    *most, last = (f"--device {name}" for name in inventory.names())
    return f"what is there: {', '.join(most)} and {last}" if most else f"what is there: {last}"


def _joined(indices: tuple[int, ...]) -> str:
    return ",".join(map(str, indices))
