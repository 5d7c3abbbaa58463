"""The five ways to bring a recorded tensor back, as pure functions.

Throughout, ``x`` is the current tensor, ``r`` the recorded one (already projected where that was needed) and
``a`` its weight alpha. Values, dtypes and memory formats are those of the formula written in plain PyTorch;
where a fused kernel gives the same with less work, it is used.

=========  ===========================  =====================================================
operation  formula                      paper
=========  ===========================  =====================================================
add        ``x + a * r``                He et al. 2016, https://arxiv.org/abs/1512.03385
concat     ``cat([x, r], dim)``         Huang et al. 2017, https://arxiv.org/abs/1608.06993
multiply   ``x * (1 + a * r)``          Wang et al. 2017, https://arxiv.org/abs/1704.06904
gated      ``(1 - a) * x + a * r``      Savarese 2016, https://arxiv.org/abs/1611.01260
highway    ``T * x + C * r``            Srivastava et al. 2015, https://arxiv.org/abs/1505.00387
=========  ===========================  =====================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Callable

Weight = float | int | Tensor
ONE = torch.ones((), device="cpu")
_WIDE = (torch.float32, torch.float64)


def add(x: Tensor, r: Tensor, a: Weight) -> Tensor:
    """Return ``x + a * r``.

    Example:
        >>> add(torch.tensor([1.0, 2.0]), torch.tensor([10.0, 20.0]), 0.5)
        tensor([ 6., 12.])
    """
    if isinstance(a, float) and r.is_floating_point() and (a == 1.0 or r.dtype == x.dtype):
        # One kernel instead of two. Integers stay with the formula: torch.add refuses a float alpha there. So do mixed
        # dtypes: it would multiply in the wider one.
        return x + r if a == 1.0 else torch.add(x, r, alpha=a)
    if (
        isinstance(a, Tensor)
        and not torch.is_grad_enabled()
        and x.dtype is r.dtype is a.dtype
        and x.dtype in _WIDE
        and a.dim() == 0
    ):
        # One kernel instead of two; in training the two are faster, and narrow types would round once instead of twice.
        return torch.addcmul(x, r, a)
    return x + a * r


def concat(x: Tensor, r: Tensor, dim: int) -> Tensor:
    """Return ``cat([x, r], dim)``."""
    return torch.cat((x, r), dim)


def multiply(x: Tensor, r: Tensor, a: Weight) -> Tensor:
    """Return ``x * (1 + a * r)``.

    Not ``addcmul(x, x, r, value=a)``: for an infinite x and a zero r that gives NaN where the formula gives x.

    Example:
        >>> multiply(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 0.0]), 0.5)
        tensor([1.5000, 2.0000])
    """
    if isinstance(a, float) and r.is_floating_point():
        # Two kernels instead of three.
        return x * (r + 1 if a == 1.0 else torch.add(ONE, r, alpha=a))
    return x * (1 + a * r)


def gated(x: Tensor, r: Tensor, a: Weight) -> Tensor:
    """Return ``(1 - a) * x + a * r``.

    Not ``lerp(x, r, a)``: where both are minus infinity (masked logits) that gives NaN.

    Example:
        >>> gated(torch.tensor([0.0, 2.0]), torch.tensor([1.0, 4.0]), 0.5)
        tensor([0.5000, 3.0000])
    """
    if isinstance(a, float) and r.is_floating_point() and r.dtype == x.dtype:
        return (1 - a) * x + r if a == 1.0 else torch.add((1 - a) * x, r, alpha=a)
    return (1 - a) * x + a * r


@dataclass(frozen=True, slots=True)
class Operation:
    """What distinguishes one operation from another.

    Args:
        name: What a user types.
        weighted: The function ``(x, r, alpha) -> tensor``, or None where alpha has no part in it.
        formula: The formula as shown to people.
        gates: Whether it needs the two highway gates.
        joins: Whether the feature sizes add up instead of having to agree.
    """

    name: str
    weighted: Callable[[Tensor, Tensor, Weight], Tensor] | None
    formula: str
    gates: bool = False
    joins: bool = False


OPERATIONS: dict[str, Operation] = {
    operation.name: operation
    for operation in (
        Operation("add", add, "x + α·r"),
        Operation("concat", None, "cat([x, r])", joins=True),
        Operation("multiply", multiply, "x·(1 + α·r)"),
        Operation("gated", gated, "(1-α)·x + α·r"),
        Operation("highway", None, "T·x + C·r", gates=True),
    )
}


def along(layer: nn.Module, tensor: Tensor, dim: int) -> Tensor:
    """Apply a Linear along a dimension that need not be the last; other layers know their dimension.

    Args:
        layer: A Linear, or a convolution that works on channels.
        tensor: Any shape; dimension ``dim`` is the one that a Linear maps.
        dim: The feature dimension.
    """
    if not isinstance(layer, nn.Linear) or dim in (-1, tensor.dim() - 1):
        result: Tensor = layer(tensor)
        return result
    moved: Tensor = layer(tensor.movedim(dim, -1))
    return moved.movedim(-1, dim)
