"""The exit codes of rescli, and which error ends with which of them."""

from __future__ import annotations

from enum import IntEnum

from rescli.errors import CommandLineError, FileError, HardwareError, SpecError


class ExitCode(IntEnum):
    """What the number means that a shell or a CI job sees when rescli ends."""

    DONE = 0
    CHECK_FAILED = 1
    COMMAND_LINE = 2
    SPEC = 3
    HARDWARE = 4
    FILE = 5
    FAULT = 70
    INTERRUPTED = 130


_CODE_OF: dict[type[BaseException], ExitCode] = {
    CommandLineError: ExitCode.COMMAND_LINE,
    SpecError: ExitCode.SPEC,
    HardwareError: ExitCode.HARDWARE,
    FileError: ExitCode.FILE,
    KeyboardInterrupt: ExitCode.INTERRUPTED,
    # The reader of our output (`| head`) has seen enough: that is no failure.
    BrokenPipeError: ExitCode.DONE,
}


def exit_code_of(error: BaseException) -> ExitCode:
    """Say with which code rescli ends because of an error.

    Args:
        error: What was raised. A class that the table does not know is a fault of rescli itself.

    Example:
        >>> exit_code_of(SpecError("no such file")).value
        3
        >>> exit_code_of(ZeroDivisionError()).value
        70
    """
    for kind in type(error).__mro__:
        if kind in _CODE_OF:
            return _CODE_OF[kind]
    return ExitCode.FAULT
