"""What was typed, for a command that runs itself once more in other processes."""

from __future__ import annotations

from contextvars import ContextVar

typed_arguments: ContextVar[tuple[str, ...]] = ContextVar("typed_arguments", default=())
"""What follows the name of the program on the command line that runs."""
