"""How often Python looks for garbage in cycles."""

from __future__ import annotations

import contextlib
import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# As many new objects as a block of some thousand layers consists of.
_NEW_OBJECTS = 100_000
_ROUNDS = 50


@contextlib.contextmanager
def rarely_collected() -> Iterator[None]:
    """Let Python look for garbage rarely while much is made that stays.

    A block of 10,000 layers is a million objects, and with Python's own setting each of them is looked at a dozen
    times in vain: a quarter of what showing such a block takes. Garbage that is no cycle goes at once as always.

    Example:
        >>> import gc
        >>> before = gc.get_threshold()
        >>> with rarely_collected():
        ...     gc.get_threshold()[0]
        100000
        >>> gc.get_threshold() == before
        True
    """
    before = gc.get_threshold()
    if before[0]:  # whoever has switched it off meant it
        gc.set_threshold(_NEW_OBJECTS, _ROUNDS, _ROUNDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
