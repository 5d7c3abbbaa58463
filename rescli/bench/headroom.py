"""Whether an input can be had at all: asking Linux for too much may end in a killed process, not an error."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from rescli.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

_MEMORY = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")
# The resized input, and the copy that an exercise works on.
_COPIES = 2


def check_headroom(inputs: Sequence[Tensor], items: int, batch_size: int, available: int | None) -> None:
    """Refuse a batch whose input alone is more than the memory that is left.

    The kernel grants such an allocation and kills the process when it is filled, with all that was measured.

    Args:
        inputs: Inputs with another batch size, on the CPU.
        items: That batch size.
        batch_size: The one to be tried.
        available: Bytes that are left; None if that is not known, then nothing is refused.

    Raises:
        MemoryError: It cannot fit.
    """
    present = sum(tensor.numel() * tensor.element_size() for tensor in inputs)
    needed = _COPIES * present * batch_size // max(1, items)
    if available is not None and needed > available:
        raise MemoryError(
            f"the input alone takes {format_bytes(needed)}, and {format_bytes(available)} are available"
        )


def available_bytes(memory: Path = _MEMORY, group: Path = _GROUP) -> int | None:
    """Give the memory that this process may still take, or None where that cannot be read.

    Args:
        memory: Linux's account of the machine's memory.
        group: The control group's files; a container may have less than the machine.
    """
    match = re.search(r"^MemAvailable:\s+(\d+) kB", _read(memory), re.MULTILINE)
    found = [int(match[1]) * 1024] if match else []
    limit, current = _read(group / "memory.max").strip(), _read(group / "memory.current").strip()
    if limit.isdecimal() and current.isdecimal():
        found.append(max(0, int(limit) - int(current)))
    return min(found, default=None)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
