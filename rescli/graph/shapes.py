"""What the commonest functions give on the meta device, known without asking torch.

The first time that torch adds two meta tensors it imports its compiler, which takes as long as importing torch, and
each further function takes a millisecond. Functions with simple rules need neither. Whatever does not fit a rule to the
letter is torch's: other dtypes, broadcasting, subclasses, and sizes that do not go together, with torch's own errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_PLAIN = frozenset({Tensor, nn.Parameter})
# vmap has no public question for this.
_is_inside_vmap = torch._C._functorch.is_functorch_wrapped_tensor  # noqa: SLF001


def known_result(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor | None:
    """Make what a function would return for meta tensors.

    Args:
        func: A function of torch.
        args: Its positional arguments.
        kwargs: Its keyword arguments.

    Returns:
        A new tensor without data; None if torch has to be asked.

    Example:
        >>> x, weight = torch.empty(8, 64, device="meta"), torch.empty(32, 64, device="meta")
        >>> known_result(functional.linear, (x, weight, None), {}).shape
        torch.Size([8, 32])
        >>> known_result(functional.linear, (x, weight.T, None), {}) is None
        True
    """
    rule = _RULES.get(func)
    shape = rule(args, kwargs) if rule is not None and args and _are_alike(args) else None
    return None if shape is None else torch.empty(shape, dtype=args[0].dtype, device="meta")


def _are_alike(args: Sequence[Any]) -> bool:
    """Say whether all tensors among arguments, the first one included, are plain ones without data and of one dtype."""
    dtype = args[0].dtype if type(args[0]) in _PLAIN else None
    return (dtype is not None and dtype.is_floating_point) and all(
        not isinstance(each, Tensor)
        or (
            type(each) in _PLAIN
            and each.is_meta
            and each.dtype == dtype
            and each.layout == torch.strided
            and each.is_contiguous()
            and not _is_inside_vmap(each)
        )
        for each in args
    )


def _linear(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[int, ...] | None:
    if kwargs or len(args) != 3 or args[0].dim() < 2 or not isinstance(args[1], Tensor) or args[1].dim() != 2:
        return None
    outputs, inputs = args[1].shape
    fits = args[0].shape[-1] == inputs and (args[2] is None or args[2].shape == (outputs,))
    return (*args[0].shape[:-1], outputs) if fits else None


def _two_alike(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[int, ...] | None:
    if (
        len(args) != 2
        or any(type(each) not in (int, float) for each in kwargs.values())
        or set(kwargs) - {"alpha"}
    ):
        return None
    other = args[1]
    fits = type(other) in (int, float) or (isinstance(other, Tensor) and other.shape == args[0].shape)
    return tuple(args[0].shape) if fits else None


def _one(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[int, ...] | None:
    return tuple(args[0].shape) if len(args) == 1 and not any(map(_is_asked, kwargs.items())) else None


def _is_asked(option: tuple[str, object]) -> bool:
    """Say whether an option of an activation may change more than values, as ``inplace=True`` does."""
    return option not in {("inplace", False), ("approximate", "none"), ("approximate", "tanh")}


def _layer_norm(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[int, ...] | None:
    weight, bias = kwargs.get("weight"), kwargs.get("bias")
    if len(args) != 2 or set(kwargs) - {"weight", "bias", "eps"} or not _are_alike((args[0], weight, bias)):
        return None
    sizes = tuple(args[1])
    fits = bool(sizes) and tuple(args[0].shape[-len(sizes) :]) == sizes
    return (
        tuple(args[0].shape) if fits and all(e is None or e.shape == sizes for e in (weight, bias)) else None
    )


_RULES: Mapping[Any, Callable[[Sequence[Any], Mapping[str, Any]], tuple[int, ...] | None]] = {
    functional.linear: _linear,
    functional.layer_norm: _layer_norm,
    **dict.fromkeys(
        (torch.add, Tensor.add, torch.sub, Tensor.sub, torch.mul, Tensor.mul, Tensor.__add__, Tensor.__mul__),
        _two_alike,
    ),
    **dict.fromkeys(
        (functional.relu, functional.gelu, functional.silu, torch.relu, torch.tanh, torch.sigmoid), _one
    ),
}
