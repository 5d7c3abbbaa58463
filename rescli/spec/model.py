"""Facts about specs that need no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class ShippedSpec:
    """A spec that comes with rescli.

    Args:
        name: What to type for it.
        path: Its file.
        summary: The first line of its docstring.
        quick: Whether it runs in milliseconds and so belongs to the quick set.
    """

    name: str
    path: Path
    summary: str
    quick: bool
