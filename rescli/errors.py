"""What can go wrong in rescli, as one tree.

    RescliError                 anything a user can act on; the text is the whole message
    ├── CommandLineError        an option, a value or a ``--set`` key is wrong
    ├── SpecError               a spec could not be found, loaded or run
    ├── HardwareError           the device that was asked for is not there
    └── FileError               a file cannot be read, written, or does not fit this machine

Each message says what was found, what was expected and what to type. Which exit code belongs to which
branch is known to the command line alone.
"""

from __future__ import annotations


class RescliError(Exception):
    """Something went wrong that the user can act on.

    Args:
        message: What was found and what was expected; one sentence or two.
        hint: What to type or change next, or an empty string.
        details: Lines to print below the message as they are, for instance the part of a traceback
            that lies in the user's spec.
    """

    def __init__(self, message: str, *, hint: str = "", details: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details


class CommandLineError(RescliError):
    """An option, a value or a ``--set`` key is wrong."""


class SpecError(RescliError):
    """A spec could not be found, loaded or run."""


class HardwareError(RescliError):
    """The device that was asked for is not there."""


class FileError(RescliError):
    """A file cannot be read, written, or does not fit this machine."""
