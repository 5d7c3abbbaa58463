"""Along which dimension a batch can be cut, as nn.DataParallel does, without changing the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rescli.threads.copies import copy_module

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import nn

_DIMENSIONS = (0, 1)


def wrong_dimension(module: nn.Module, inputs: Sequence[Tensor], batch_dim: int) -> int | None:
    """Find the dimension that the batch lies in where it is not the first, which nn.DataParallel cuts.

    A recurrent layer takes the batch second unless it is told otherwise: cut along the first dimension, each
    replica gets a part of the time, and all parts but the first begin without what came before.

    Args:
        module: The module; a copy of it runs in eval mode.
        inputs: What it is called with.
        batch_dim: Where its layers say that the batch lies.

    Returns:
        The dimension; None if cutting along the first changes nothing, or if that cannot be known.
    """
    try:
        module = copy_module(module).eval()
        with torch.no_grad():
            fits = {dim: _same_in_parts(module, inputs, dim) for dim in sorted({*_DIMENSIONS, batch_dim})}
    except Exception:  # noqa: BLE001 - a module that cannot be run like this says nothing about dimensions
        return None
    if fits[0] is not False:
        return None
    return next((dim for dim, same in fits.items() if same), None)


def _same_in_parts(module: nn.Module, inputs: Sequence[Tensor], dim: int) -> bool | None:
    """Tell whether two halves along a dimension give the halves of the result; None if they cannot be had."""
    first = inputs[0]
    if first.dim() <= dim + 1 or first.shape[dim] < 2:
        return None
    half = (first.shape[dim] + 1) // 2
    parts = [
        [value if value.dim() <= dim else value.narrow(dim, start, length) for value in inputs]
        for start, length in ((0, half), (half, first.shape[dim] - half))
    ]
    whole = first_tensor(module(*inputs))
    try:
        halves = [first_tensor(module(*part)) for part in parts]
        joined = torch.cat([half for half in halves if half is not None], dim)
    except (RuntimeError, ValueError, IndexError):
        return False
    return whole is not None and joined.shape == whole.shape and torch.allclose(joined, whole, 1e-3, 1e-4)


def first_tensor(output: object) -> Tensor | None:
    """Find the tensor that an output is, or begins with.

    Args:
        output: What a forward returned.
    """
    while isinstance(output, (tuple, list)) and output:
        output = output[0]
    return output if isinstance(output, Tensor) else None
