"""How an error reaches the person at the terminal: one message, or with ``--traceback`` everything."""

from __future__ import annotations

import traceback
from contextvars import ContextVar
from typing import TYPE_CHECKING

from rescli.cli.console import Streams, write_note

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rescli.errors import RescliError

show_traceback: ContextVar[bool] = ContextVar("show_traceback", default=False)
"""Whether ``--traceback`` was given to the command that runs."""

_RED = "\x1b[31;1m"
_RESET = "\x1b[0m"


def error_text(error: RescliError, *, color: bool = False) -> str:
    """Word an error as it is printed: the message, the details as they are, the hint.

    Args:
        error: What went wrong.
        color: Whether the first word may be red.

    Example:
        >>> from rescli.errors import RescliError
        >>> print(error_text(RescliError("there is no file a.py", hint="did you mean b.py?")))
        Error: there is no file a.py
        Hint: did you mean b.py?
    """
    label = f"{_RED}Error:{_RESET}" if color else "Error:"
    lines = [f"{label} {error.message}"]
    if error.details:
        lines.append(error.details.rstrip("\n"))
    if error.hint:
        lines.append(f"Hint: {error.hint}")
    return "\n".join(lines)


def write_error(error: RescliError, environ: Mapping[str, str] | None = None) -> None:
    """Print an error to stderr; the whole traceback before it if ``--traceback`` was given.

    Args:
        error: What went wrong.
        environ: The environment that decides about colour; the one of the process if None.
    """
    text = error_text(error, color=Streams.detect(environ).stderr.color)
    write_note(_whole_traceback(error) + text)


def write_fault(error: BaseException) -> None:
    """Say that rescli itself is to blame for an error that nobody foresaw.

    Args:
        error: What was raised.
    """
    more = "" if show_traceback.get() else "; --traceback shows where"
    name = type(error).__name__
    write_note(
        f"{_whole_traceback(error)}Error: rescli failed on its own account: {name}: {error}\n"
        f"Hint: this is a fault of rescli, not of your input{more}. "
        "Please report it with what `rescli env` prints."
    )


def _whole_traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) if show_traceback.get() else ""
