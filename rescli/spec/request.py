"""What a command asks the spec room for, before torch is there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rescli.spec.shape import InputShape

FLOATING_DTYPES = ("float32", "float64", "float16", "bfloat16")


@dataclass(frozen=True, slots=True)
class Request:
    """How the blocks of a target are to be built and fed.

    Args:
        settings: Arguments for factories, from ``--set``.
        inputs: Shapes given with ``--input``; empty if the spec or the layers decide.
        batch_size: Size of the batch dimension, or None for the spec's own (8 if worked out from the layers).
        dtype: Floating point type that block and inputs are cast to, or None to leave them as they are.
        device: ``auto``, ``cpu``, ``cuda``, ``cuda:N`` or ``mps``.
        seed: Decides the weights of what factories build, and the values of inputs that are given as shapes.
        only_look: Whether nothing depends on the values of weights: large blocks that factories build need no data.
    """

    settings: Mapping[str, object] = field(default_factory=dict)
    inputs: tuple[InputShape, ...] = ()
    batch_size: int | None = None
    dtype: str | None = None
    device: str = "cpu"
    seed: int = 0
    only_look: bool = False
