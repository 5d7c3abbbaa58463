"""Which device is meant, and the sentence for one that is not there."""

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
        raise HardwareError(f"--device {text}: {why_missing(kind, inventory)}", hint=what_is_there(inventory))
    return device


def why_missing(kind: str, inventory: Inventory) -> str:
    """Say why there is no device of a kind, or none of that number.

    Args:
        kind: ``cuda`` or ``mps``.
        inventory: What is there.
    """
    if kind == "cuda" and not inventory.cuda_built:
        return f"this PyTorch ({inventory.torch}) is built without CUDA"
    if kind == "cuda" and not inventory.gpus:
        return f"PyTorch {inventory.torch} sees no GPU on this machine"
    if kind == "mps":
        return f"PyTorch {inventory.torch} sees no Apple GPU on this machine"
    return f"PyTorch {inventory.torch} sees no GPU of that number on this machine"


def what_is_there(inventory: Inventory) -> str:
    """Name what can be typed instead.

    Args:
        inventory: What is there.
    """
    *most, last = (f"--device {name}" for name in inventory.names())
    return f"what is there: {', '.join(most)} and {last}" if most else f"what is there: {last}"
