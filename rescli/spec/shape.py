"""The text of ``--input``: a shape, and perhaps a type behind a colon."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rescli.errors import CommandLineError

INPUT_DTYPES = (
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "bool",
    "complex64",
    "complex128",
)
_SHAPE = re.compile(r"\d+(x\d+)*", re.IGNORECASE)
_EXAMPLES = "8x64, 4x64x100, 2x16:int64; 1 is the shape (1,)"


@dataclass(frozen=True, slots=True)
class InputShape:
    """The shape of one input and, if it was given, its type.

    Args:
        shape: The sizes, the batch first.
        dtype: A name as ``int64``, or None where the block decides.
    """

    shape: tuple[int, ...]
    dtype: str | None = None


def parse_input(text: str) -> InputShape:
    """Read one value of ``--input``.

    Args:
        text: Sizes joined by ``x``, then perhaps a colon and the name of a type.

    Raises:
        CommandLineError: The text has another form, or the type is none that an input can have.

    Example:
        >>> parse_input("2x16:int64")
        InputShape(shape=(2, 16), dtype='int64')
    """
    sizes, colon, dtype = text.strip().partition(":")
    if not _SHAPE.fullmatch(sizes):
        raise CommandLineError(f"--input {text}: {sizes!r} is no shape", hint=f"for instance {_EXAMPLES}")
    if colon and dtype not in INPUT_DTYPES:
        raise CommandLineError(
            f"--input {text}: {dtype!r} is no type of a tensor", hint=f"one of {', '.join(INPUT_DTYPES)}"
        )
    shape = tuple(int(size) for size in sizes.lower().split("x"))
    return InputShape(shape=shape, dtype=dtype or None)
