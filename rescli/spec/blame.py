"""Whose fault an exception is: the user's code, which gets its own part of the traceback to see, or ours."""

from __future__ import annotations

import contextlib
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from rescli.errors import RescliError, SpecError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

_OURS = str(Path(__file__).parent.parent)
_SHIPPED = str(Path(_OURS) / "_specs")
_MOST_FRAMES = 20
# The file from which torch calls every layer, whatever the installation.
_LAYER_CALL = str(Path("torch") / "nn" / "modules" / "module.py")


@contextlib.contextmanager
def users_code(spec_file: Path | None, message: str) -> Iterator[None]:
    """Run code of the user's: whatever it raises is a SpecError that shows its part of the traceback.

    Args:
        spec_file: The file from whose first frame on the traceback is shown; None for a module, where
            everything behind the import is.
        message: What could not be done if it raises, as ``net.py could not be loaded``.

    Raises:
        SpecError: The code raised an exception or called ``sys.exit``.
    """
    try:
        yield
    except (RescliError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        raise spec_error(error, spec_file, message) from error


@contextlib.contextmanager
def blame_user(spec_file: Path | None, message: str) -> Iterator[None]:
    """Use a block of the user's: what it raises is a SpecError, what rescli itself raises passes.

    Whoever was running last is to blame: of the frames of the traceback, the innermost that belongs to
    the spec, to the call of a layer, or to rescli decides.

    Args:
        spec_file: The file of the spec, or None.
        message: What could not be done, as ``net.py:block could not be run``.

    Raises:
        SpecError: The user's code, or a layer fed with what it does not take, raised or called ``sys.exit``.
    """
    try:
        yield
    except (RescliError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        if not _is_the_users(error.__traceback__, spec_file):
            raise
        raise spec_error(error, spec_file, message) from error


def spec_error(error: BaseException, spec_file: Path | None, message: str) -> SpecError:
    """Make the error that shows what the user's code raised, from the spec's file on.

    Args:
        error: What was raised.
        spec_file: The file whose frame is the first one shown; None to begin behind the import system.
        message: What could not be done because of it.
    """
    report = traceback.TracebackException.from_exception(error)
    part: traceback.TracebackException | None = report
    while part is not None:
        _cut(part, spec_file)
        # Where the library says the layer stands; the message has named it already.
        part.__notes__ = _shorten(part.stack)
        part = part.__cause__ or (None if part.__suppress_context__ else part.__context__)
    return SpecError(message, hint=_way_out(error), details="".join(report.format()))


def _cut(report: traceback.TracebackException, spec_file: Path | None) -> None:
    """Drop the frames before the user's; all of them if none is."""
    names = [frame.filename for frame in report.stack]
    if spec_file is not None:
        first = names.index(str(spec_file)) if str(spec_file) in names else len(names)
    else:
        foreign = (
            i for i, name in enumerate(names) if not name.startswith(_OURS) and "importlib" not in name
        )
        first = next(foreign, len(names))
    # Where layers call layers our own hooks stand between them.
    report.stack[:] = [frame for frame in report.stack[first:] if not _is_ours(frame.filename)]


def _shorten(stack: traceback.StackSummary) -> list[str] | None:
    """Leave the middle out of what recursed, and return the line that says so."""
    left_out = len(stack) - _MOST_FRAMES
    if left_out <= 0:
        return None
    del stack[_MOST_FRAMES // 2 : len(stack) - _MOST_FRAMES // 2]
    return [f"({left_out} calls in the middle are left out)"]


def _is_ours(file: str) -> bool:
    return file.startswith(_OURS) and not file.startswith(_SHIPPED)


def _way_out(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return 'what only a script should do belongs under `if __name__ == "__main__":`'
    if isinstance(error, ModuleNotFoundError) and error.name:
        package, inside, _ = error.name.partition(".")
        if inside and package in sys.modules:
            return f"{package} is installed, {error.name} is not in it"
        return f"install {package} for {sys.executable}, or put {package}.py beside the spec"
    return ""


def _is_the_users(trace: TracebackType | None, spec_file: Path | None) -> bool:
    for frame in reversed(traceback.extract_tb(trace)):
        name = frame.filename
        if name == str(spec_file) or name.endswith(_LAYER_CALL) or name.startswith(_SHIPPED):
            return True
        if name.startswith(_OURS):
            return False
    return False
