"""What every JSON document of rescli has in common."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass


def document(schema: str, **contents: object) -> str:
    """Write a JSON document.

    Args:
        schema: Name and version of the document's form, as ``rescli.show/1``.
        contents: Its fields, in this order: plain values, sequences, mappings and dataclasses, nested as they
            come. A number that JSON does not have (NaN, Infinity) becomes ``null``; what is not ASCII is
            escaped, so that the document stays valid on a stream of any encoding.

    Raises:
        TypeError: There is something of another type in it.

    Example:
        >>> print(document("rescli.example/1", sizes=(8, 64), ratio=float("nan")))
        {
          "schema": "rescli.example/1",
          "sizes": [
            8,
            64
          ],
          "ratio": null
        }
    """
    return json.dumps(_plain({"schema": schema, **contents}), indent=2, allow_nan=False)


def _plain(value: object) -> object:
    """Turn a value into what ``json`` can write."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (str, int)):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {entry.name: _plain(getattr(value, entry.name)) for entry in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    raise TypeError(f"a JSON document cannot hold a {type(value).__name__}")
