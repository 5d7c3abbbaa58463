"""What ``torch.einsum`` multiplies: the order of its products, and the size of each."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from torch.backends import opt_einsum

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


def einsum_flops(equation: str, operands: Sequence[Tensor]) -> int:
    """Count the multiply-adds of one einsum, two operations each.

    Products in which nothing is summed work element by element and count nothing, as in torch.

    Args:
        equation: As ``bij,bjk->bik``; may hold an ellipsis.
        operands: The tensors.

    Example:
        >>> import torch
        >>> einsum_flops("ij,jk->ik", [torch.ones(2, 3), torch.ones(3, 4)])
        48
    """
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    labels = [_labels(term, operand.dim()) for term, operand in zip(inputs.split(","), operands, strict=True)]
    sizes: dict[str, int] = {}
    for term, operand in zip(labels, operands, strict=True):
        for label, size in zip(term, operand.shape, strict=True):
            sizes[label] = max(sizes.get(label, 1), size)
    # What is stretched by broadcasting takes no part in a product.
    left = [
        {label for label, size in zip(term, operand.shape, strict=True) if size > 1}
        for term, operand in zip(labels, operands, strict=True)
    ]
    kept = _labels(output, None, sizes) if arrow else _implicit_output(labels)
    flops = 0
    for first, second in _order(equation, operands):
        one, other = left.pop(max(first, second)), left.pop(min(first, second))
        needed = set(kept).union(*left)
        summed = (one & other) - needed
        # A label that only one of the two has and nobody needs later is summed before the product.
        product = (one | other) & needed
        if summed:
            flops += 2 * math.prod(sizes[label] for label in product | summed)
        left.append(product)
    return flops


def _labels(term: str, rank: int | None, sizes: dict[str, int] | None = None) -> list[str]:
    """Name each dimension; those under an ellipsis are numbered from the right, where they line up."""
    before, dots, after = term.partition("...")
    if not dots:
        return list(before)
    if rank is None:
        return [*before, *(label for label in sizes or () if label.startswith("...")), *after]
    hidden = rank - len(before) - len(after)
    return [*before, *(f"...{place}" for place in reversed(range(hidden))), *after]


def _implicit_output(labels: Sequence[Sequence[str]]) -> list[str]:
    everywhere = [label for term in labels for label in term]
    return [label for label in everywhere if label.startswith("...") or everywhere.count(label) == 1]


def _order(equation: str, operands: Sequence[Tensor]) -> Sequence[tuple[int, int]]:
    """Say which two operands torch multiplies in each step; the product goes to the end of the list."""
    if len(operands) > 2 and opt_einsum.enabled and opt_einsum.is_available():
        # torch takes the order that this optional package proposes, where it is installed.
        path = opt_einsum.get_opt_einsum().contract_path(
            equation, *operands, optimize=opt_einsum.strategy or "auto"
        )
        return [(step[0], step[-1]) for step in path[0] if len(step) == 2]
    # Else from left to right: the first two, then always the next one with the product at the end.
    return [(0, 1 if left == len(operands) else left - 1) for left in range(len(operands), 1, -1)]
