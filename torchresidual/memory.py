"""Whether two values share memory, and whether one was written into."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from torchresidual.tracing import is_compiling


def data_of(value: object) -> Tensor | None:
    """Return the tensor whose memory matters: a PackedSequence's data, or the tensor itself."""
    if isinstance(value, PackedSequence):
        return value.data
    return value if isinstance(value, Tensor) else None


def shares_memory(value: object, recorded: object) -> bool:
    """Say whether writing into ``value`` would change ``recorded``; while compiling it is taken for granted."""
    a, b = data_of(value), data_of(recorded)
    if a is None or b is None:
        return False
    return a is b or is_compiling() or bool(torch._C._is_alias_of(a, b))  # type: ignore[attr-defined]  # not in the stubs


def copied(value: object) -> object:
    """Return a copy that a layer may write into; autograd sees through it."""
    if isinstance(value, PackedSequence):
        return PackedSequence(
            value.data.clone(), value.batch_sizes, value.sorted_indices, value.unsorted_indices
        )
    return value.clone() if isinstance(value, Tensor) else value


def version_of(value: object) -> int | None:
    """Return autograd's count of in-place writes, or None where nobody counts: inference tensors, compilers."""
    tensor = data_of(value)
    if tensor is None or is_compiling() or tensor.is_inference():
        return None
    return tensor._version
