"""Objects that hold tensors under names: named tuples, dataclasses, and those of a class of somebody's own."""

from __future__ import annotations

import dataclasses
import types
from typing import Any

from torch import nn

# What has attributes and is no container of results; what can be called may hold the whole program.
_CLOSED = (type, types.ModuleType, nn.Module)


def named_parts(value: object) -> dict[str, Any] | None:
    """Give what an object holds under names, in the order in which its class has them.

    Args:
        value: Anything but a tensor, a plain container or a number.

    Returns:
        The names and what is there; None where there are none to speak of.

    Example:
        >>> named_parts(types.SimpleNamespace(mean=1, spread=2))
        {'mean': 1, 'spread': 2}
        >>> named_parts("text") is None
        True
    """
    if isinstance(value, _CLOSED):
        return None
    kind = type(value)
    names = getattr(kind, "_fields", None) if isinstance(value, tuple) else None
    if names is None and dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind)]
    if names is None and hasattr(kind, "__attrs_attrs__"):
        names = [attribute.name for attribute in kind.__attrs_attrs__]
    if names is not None:
        return {name: getattr(value, name) for name in names if hasattr(value, name)}
    is_open = (
        hasattr(value, "__dict__") and not callable(value) and not isinstance(value, tuple | list | dict)
    )
    return dict(vars(value)) if is_open else None


def has_fixed_names(value: object) -> bool:
    """Say whether a class lists the names, so that a reader wants all of them.

    Args:
        value: An object that has named parts.
    """
    return isinstance(value, tuple) or dataclasses.is_dataclass(value) or hasattr(value, "__attrs_attrs__")


def with_parts(value: object, parts: dict[str, Any]) -> object:
    """Make a twin of a dataclass that holds other parts.

    Args:
        value: The object; it stays as it is.
        parts: What the twin holds under each of its names.
    """
    twin = object.__new__(type(value))
    if hasattr(value, "__dict__"):
        twin.__dict__.update(vars(value))
    for name, part in parts.items():
        # A frozen dataclass is filled this way.
        object.__setattr__(twin, name, part)
    return twin
