"""What a forward leaves behind on the module, by name."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from rescli.threads.outcome import same_bits

if TYPE_CHECKING:
    from collections.abc import Hashable

# Equal values of these types cannot be told apart, so writing an equal one changes nothing.
_VALUES = (bool, int, float, complex, str, bytes, type(None))
# Looked at as they are: what is inside belongs to the interpreter, or to each thread alone.
_OPAQUE = (type, FunctionType, BuiltinFunctionType, MethodType, ModuleType, threading.local)
_PARTS = ("_parameters", "_buffers", "_modules")
_DEPTH = 4


@dataclass(frozen=True, slots=True, eq=False)
class _Bits:
    """A tensor as it was: the object, and a copy of its bits where it has any."""

    tensor: Tensor
    copy: Tensor | None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Bits) or self.tensor is not other.tensor:
            return False
        if self.copy is None or other.copy is None:
            return self.copy is other.copy
        return same_bits(self.copy, other.copy)

    __hash__ = None  # type: ignore[assignment] # compared, never looked up


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything a module holds at one moment.

    Args:
        marks: For each name as ``1.weight``, what can be compared later.
        kept: The objects themselves, alive, so that no new object can be taken for an old one.
    """

    marks: Mapping[str, object]
    kept: list[object] = field(default_factory=list)


def take_snapshot(module: nn.Module) -> Snapshot:
    """Note every submodule's attributes, children, parameters and buffers; tensors bit for bit.

    Args:
        module: The module to look at.
    """
    marks: dict[str, object] = {}
    kept: list[object] = []
    for path, layer in module.named_modules():
        prefix = f"{path}." if path else ""
        own = {name: value for name, value in vars(layer).items() if name not in _PARTS}
        # Lazy layers become another class when they are sized.
        own["__class__"] = type(layer)
        for part in _PARTS:
            own |= getattr(layer, part, {})
        for name, value in own.items():
            marks[prefix + name] = _mark(value, kept, _DEPTH)
    return Snapshot(marks, kept)


def changed_names(before: Snapshot, after: Snapshot) -> tuple[str, ...]:
    """Name what was added, removed or changed between two snapshots.

    What lies inside a child that was added or removed is not listed again.

    Args:
        before: The earlier snapshot.
        after: The later one.
    """
    names = dict.fromkeys((*before.marks, *after.marks))
    changed = [
        name
        for name in names
        if name not in before.marks or name not in after.marks or before.marks[name] != after.marks[name]
    ]
    roots = set(changed)
    return tuple(sorted(name for name in changed if not _inside(name, roots)))


def _inside(name: str, roots: set[str]) -> bool:
    parts = name.split(".")
    return any(".".join(parts[:length]) in roots for length in range(1, len(parts)))


def _mark(value: object, kept: list[object], depth: int) -> object:
    """Turn a value into something that differs whenever the value was changed, in place or by assignment."""
    if isinstance(value, Tensor):
        bits = None if is_lazy(value) or value.device.type == "meta" else value.detach().clone()
        return _Bits(value, bits)
    if type(value) in _VALUES:
        # repr, so that NaN equals NaN.
        return type(value), repr(value)
    if type(value) is tuple or (isinstance(value, tuple) and type(value).__module__.startswith("torch")):
        return type(value), tuple(_mark(item, kept, depth) for item in value)
    kept.append(value)
    if isinstance(value, nn.Module):
        return nn.Module, id(value)
    mark: tuple[object, Hashable] = (type(value), id(value))
    if isinstance(value, _OPAQUE) or depth == 0:
        return mark
    return (*mark, _content(value, kept, depth - 1))


def _content(value: object, kept: list[object], depth: int) -> object:
    if isinstance(value, Mapping):
        return tuple((_mark(key, kept, depth), _mark(item, kept, depth)) for key, item in list(value.items()))
    if isinstance(value, list | tuple | deque):
        return tuple(_mark(item, kept, depth) for item in list(value))
    if isinstance(value, AbstractSet):
        return frozenset(map(id, value))
    attributes = getattr(value, "__dict__", {})
    return tuple((name, _mark(item, kept, depth)) for name, item in list(attributes.items()))
