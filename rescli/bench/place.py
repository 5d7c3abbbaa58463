"""Which process of a group this one is, as the launcher that started it says."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# What PyTorch's launchers tell each process of a group.
_TOLD_BY_LAUNCHERS = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a process stands in its group.

    Args:
        rank: Its number in the group, from 0.
        size: How many processes the group has.
        local_rank: Its number on this machine.
        local_size: How many of them run on this machine.
    """

    rank: int
    size: int
    local_rank: int
    local_size: int


def told_place(environ: Mapping[str, str] | None = None) -> Place | None:
    """Say which process of which group this one was started as, or None if it was started alone.

    Args:
        environ: The environment, in which ``torchrun`` and others say it; the one of the process if None.

    Example:
        >>> told_place({"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"})
        Place(rank=1, size=2, local_rank=1, local_size=2)
    """
    environ = os.environ if environ is None else environ
    if not all(name in environ for name in _TOLD_BY_LAUNCHERS):
        return None
    rank, size = int(environ["RANK"]), int(environ["WORLD_SIZE"])
    return Place(rank, size, int(environ.get("LOCAL_RANK", rank)), int(environ.get("LOCAL_WORLD_SIZE", size)))
