"""What to keep of an exception that ended a pass: text, never the frames with the tensors they hold."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from types import FrameType

# How torch says that memory ran out, besides by class: the CPU's allocator, CUDA's libraries, MPS, and sizes
# beyond what an address can be.
_OUT_OF_MEMORY = (
    "out of memory",
    "can't allocate memory",
    "not enough memory",
    "alloc_failed",
    "invalid buffer size",
    "storage size calculation overflowed",
    "integer multiplication overflow",
)
# What stands between a spec's own code and the engine.
_MACHINERY = frozenset({"rescli", "torch", "torchresidual"})


class NothingToDifferentiateError(RuntimeError):
    """No output of the block depends on anything that takes a gradient."""


class SilentPeersError(Exception):
    """The other processes of a group do not answer any more, so nothing can be measured with them."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a pass could not be run, or not to its end.

    Args:
        code: ``out-of-memory``, ``no-gradient``, ``no-plain`` (it does not run without its skips) or ``failed``.
        error: Name of the exception's class.
        message: The exception's text.
        trace: The part of the traceback from the user's own code on; empty if none of it took part.
        place: What the library has noted about where in the block it arose; may be empty.
        whole_trace: The whole traceback.
    """

    code: Literal["out-of-memory", "no-gradient", "no-plain", "failed"]
    error: str
    message: str
    trace: str = ""
    place: str = ""
    whole_trace: str = ""


class FailedError(RuntimeError):
    """What another process of the group has met.

    Args:
        failure: Its description.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"{failure.error}: {failure.message}")
        self.failure = failure


class FailedAloneError(SilentPeersError):
    """A pass failed in this process, and the others wait for something that it will never send.

    Args:
        failure: Its description.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"{failure.error}: {failure.message}")
        self.failure = failure


# What ends a run, and not only the pass in which it arises.
ENDINGS = (KeyboardInterrupt, GeneratorExit, SilentPeersError)


def describe_failure(error: BaseException) -> Failure:
    """Turn an exception into what a reader needs of it.

    Args:
        error: What a pass raised.

    Example:
        >>> describe_failure(MemoryError()).code
        'out-of-memory'
    """
    if isinstance(error, FailedError):
        return error.failure
    return Failure(
        code=_code_of(error),
        error=type(error).__name__,
        message=str(error).strip(),
        trace=_part_of_the_user(error),
        place="\n".join(getattr(error, "__notes__", ())),
        whole_trace="".join(traceback.format_exception(error)),
    )


def _code_of(error: BaseException) -> Literal["out-of-memory", "no-gradient", "failed"]:
    if isinstance(error, NothingToDifferentiateError):
        return "no-gradient"
    names = {kind.__name__ for kind in type(error).__mro__}
    text = str(error).lower()
    # By name, as this file does without torch.
    if names & {"MemoryError", "OutOfMemoryError"} or any(phrase in text for phrase in _OUT_OF_MEMORY):
        return "out-of-memory"
    return "failed"


def _part_of_the_user(error: BaseException) -> str:
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    theirs = [place for place, frame in enumerate(frames) if _is_theirs(frame)]
    if not theirs:
        return ""
    return "".join(traceback.format_list(traceback.extract_tb(error.__traceback__)[theirs[0] :]))


def _is_theirs(frame: FrameType) -> bool:
    # Code that was written at run time, as the library writes forwards, has no file and no name.
    package = frame.f_globals.get("__name__", "").partition(".")[0]
    return bool(package) and package not in _MACHINERY
