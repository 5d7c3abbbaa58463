"""Whose fault an exception is: the user's code, which gets its own part of the traceback to see, or ours."""

from __future__ import annotations

import contextlib
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from rescli.errors import RescliError, SpecError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

_OURS = str(Path(__file__).parent.parent)
_SHIPPED = str(Path(_OURS) / "_specs")
# The file from which torch calls every layer; its name in any installation.
_LAYER_CALL = str(Path("torch") / "nn" / "modules" / "module.py")


def spec_error(error: BaseException, spec_file: Path | None, message: str, *, hint: str = "") -> SpecError:
    """Make the error that shows what the user's code raised, from the spec's file on.

    Args:
        error: What was raised.
        spec_file: The file whose frame is the first one shown, or None to show no frames.
        message: What could not be done because of it.
        hint: What to do about it, if we know.
    """
    report = traceback.TracebackException.from_exception(error)
    part: traceback.TracebackException | None = report
    while part is not None:
        _cut(part, spec_file)
        part = part.__cause__ or (None if part.__suppress_context__ else part.__context__)
    return SpecError(message, hint=hint, details="".join(report.format()))


def _cut(report: traceback.TracebackException, spec_file: Path | None) -> None:
    """Drop the frames before the spec's file; all of them if the spec is not among them."""
    name = str(spec_file)
    first = next((i for i, frame in enumerate(report.stack) if frame.filename == name), len(report.stack))
    report.stack[:] = report.stack[first:]


@contextlib.contextmanager
def blame_user(spec_file: Path | None, message: str) -> Iterator[None]:
    """Turn what the user's block raises while it is used into a SpecError; let faults of ours pass.

    Whoever was running last is to blame: of the frames of the traceback, the innermost that belongs to
    the spec, to the call of a layer, or to rescli decides.

    Args:
        spec_file: The file of the spec, or None.
        message: What could not be done, as ``net.py:block could not be run``.

    Raises:
        SpecError: The user's code, or a layer fed with what it does not take, raised or called sys.exit.
    """
    try:
        yield
    except RescliError:
        raise
    except (Exception, SystemExit) as error:
        if not _is_the_users(error.__traceback__, spec_file):
            raise
        raise spec_error(error, spec_file, message) from error


def _is_the_users(trace: TracebackType | None, spec_file: Path | None) -> bool:
    for frame in reversed(traceback.extract_tb(trace)):
        name = frame.filename
        if name == str(spec_file) or name.endswith(_LAYER_CALL) or name.startswith(_SHIPPED):
            return True
        if name.startswith(_OURS):
            return False
    return False
