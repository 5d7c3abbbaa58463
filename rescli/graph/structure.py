"""Nested values that go into layers and come out of them: the tensors in them, and how they are written."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy
from torch.nn.utils.rnn import PackedSequence

from rescli.graph.parts import has_fixed_names, named_parts, with_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rescli.graph.model import MemoryFormat

# An output of hundreds of tensors is told by its first ones and their number.
_SHOWN_ITEMS = 6
_PLAIN_MAPPINGS = frozenset({dict, OrderedDict})
# To ask whether something is a Mapping takes long, and most arguments are one of these.
_ATOMS = frozenset({type(None), bool, int, float, str, torch.dtype, torch.device, torch.Size})


def tensors_in(value: object) -> Iterator[Tensor]:
    """Yield the tensors inside lists, tuples, mappings, dataclasses and other objects, in order.

    Args:
        value: Anything; modules and what can be called are not looked into.
    """
    if isinstance(value, Tensor):
        yield value
    elif type(value) in _ATOMS:
        return
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            if isinstance(item, Tensor):  # the commonest case, without a generator of its own
                yield item
            else:
                yield from tensors_in(item)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item)
    else:
        yield from _tensors_in_object(value, set())


def _tensors_in_object(value: object, seen: set[int]) -> Iterator[Tensor]:
    """Look into an object and those that it refers to, which may refer back to it."""
    if isinstance(value, Tensor):
        yield value
    elif id(value) not in seen and type(value) not in _ATOMS:
        seen.add(id(value))
        parts = list(value.values()) if isinstance(value, Mapping) else value
        if not isinstance(parts, list | tuple | set | frozenset):
            parts = list((named_parts(parts) or {}).values())
        for part in parts:
            yield from _tensors_in_object(part, seen)


def first_tensor(value: object) -> Tensor | None:
    """Find the tensor that a row of the listing shows: the first one, if there is any.

    Args:
        value: What a layer gave.
    """
    return next(tensors_in(value), None)


def map_tensors(value: object, change: Callable[[Tensor], Tensor]) -> object:
    """Rebuild nested lists, tuples, dicts and dataclasses with each tensor replaced.

    Args:
        value: What is rebuilt; everything in it that is no tensor stays the same object.
        change: Gives the tensor that takes a tensor's place.
    """
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        fields: Callable[..., object] = type(value)
        return fields(*(map_tensors(item, change) for item in value))
    if isinstance(value, list | tuple):
        remake: Callable[..., object] = type(value)
        return remake(map_tensors(item, change) for item in value)
    if isinstance(value, dict):
        return {key: map_tensors(item, change) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and first_tensor(value) is not None:
        parts = named_parts(value) or {}
        return with_parts(value, {name: map_tensors(part, change) for name, part in parts.items()})
    return value


def has_size(tensor: Tensor) -> bool:
    """Say whether a parameter or buffer has a size, or is still to get one in the first run.

    Args:
        tensor: A parameter or buffer.
    """
    return not is_lazy(tensor)


def describe(value: object) -> str:
    """Write the structure of a value: shapes in round, containers in square or curly brackets.

    What has names, as a dataclass or a named tuple, is written with its class and these.

    Args:
        value: What went into a layer or came out of it.

    Example:
        >>> describe((torch.zeros(4, 8), None, {"loss": torch.zeros(())}))
        '[(4, 8), None, {loss: ()}]'
    """
    if isinstance(value, Tensor):
        return describe_shape(tuple(value.shape))
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    if isinstance(value, PackedSequence):
        return f"packed {describe(value.data)}"
    if isinstance(value, Mapping):
        kind = type(value).__name__ if type(value) not in _PLAIN_MAPPINGS else ""
        return f"{kind}{{{_named(value)}}}"
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return f"[{_joined([describe(item) for item in value[:_SHOWN_ITEMS]], len(value))}]"
    return _describe_object(value)


def _describe_object(value: object) -> str:
    kind = type(value).__name__
    if type(value) in _ATOMS or first_tensor(value) is None:
        return kind
    parts = named_parts(value) or {}
    if not has_fixed_names(value):
        # Of an object of any class only what holds tensors is of interest, and not what refers back to it.
        parts = {
            name: part
            for name, part in parts.items()
            if first_tensor(part) is not None and not isinstance(part, type(value))
        }
    return f"{kind}({_named(parts)})"


def _named(items: Mapping[Any, object]) -> str:
    shown = [f"{key}: {describe(item)}" for key, item in itertools.islice(items.items(), _SHOWN_ITEMS)]
    return _joined(shown, len(items))


@functools.lru_cache(maxsize=1024)
def describe_shape(shape: tuple[int, ...]) -> str:
    """Write a shape as ``(8, 64)``; the shape of one dimension as ``(8,)``.

    Args:
        shape: The sizes.
    """
    return str(tuple(int(size) for size in shape))


def dtype_name(dtype: torch.dtype) -> str:
    """Write a type without the name of the package, as ``float32``.

    Args:
        dtype: The type of a tensor.
    """
    return str(dtype).removeprefix("torch.")


def memory_format_of(tensor: Tensor) -> MemoryFormat | None:
    """Say in which order a tensor lies in memory.

    Args:
        tensor: Any tensor.

    Returns:
        ``contiguous`` where the last dimension runs fastest, ``channels_last`` or ``channels_last_3d`` where that
        of pictures or volumes is the channels, else ``strided``; None where there are no strides, as in sparse tensors.

    Example:
        >>> memory_format_of(torch.zeros(1, 8, 4, 4).to(memory_format=torch.channels_last))
        'channels_last'
    """
    if tensor.layout is not torch.strided or tensor.is_nested:
        return None
    if tensor.is_contiguous():
        return "contiguous"
    if tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last):
        return "channels_last"
    if tensor.dim() == 5 and tensor.is_contiguous(memory_format=torch.channels_last_3d):
        return "channels_last_3d"
    return "strided"


def _joined(items: list[str], total: int) -> str:
    rest = total - len(items)
    return ", ".join([*items, f"and {rest} more"] if rest else items)
