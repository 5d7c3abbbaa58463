"""One command on several targets: one that fails does not stop the others."""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from rescli.cli.console import write_note
from rescli.cli.errors import write_error
from rescli.cli.exit_codes import ExitCode, exit_code_of
from rescli.errors import CommandLineError, RescliError
from rescli.spec.target import parse_target, quick_targets, shipped_specs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rescli.spec.prepare import PreparedBlock
    from rescli.spec.request import Request

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Result]):
    """What came of all targets together.

    Args:
        results: What the work returned, a value for each block that went well, in order.
        code: The highest exit code that a target deserves.
    """

    results: tuple[Result, ...]
    code: ExitCode


def chosen_targets(targets: Sequence[str] | None, *, take_all: bool = False) -> tuple[str, ...]:
    """Settle which targets a command works on that can do without one.

    Args:
        targets: The TARGETs of the command line; without any, the quick set of shipped specs.
        take_all: Whether ``--all`` was given: every shipped spec.

    Raises:
        CommandLineError: Both TARGETs and ``--all`` were given.
    """
    if targets and take_all:
        raise CommandLineError("--all and a TARGET were both given", hint="give one of them")
    if targets:
        return tuple(targets)
    return tuple(spec.name for spec in shipped_specs()) if take_all else quick_targets()


def for_each_target(
    targets: Sequence[str], request: Request, work: Callable[[PreparedBlock], Result]
) -> Outcome[Result]:
    """Prepare each block of each target and work on it.

    An error of one block is written to stderr and the next one is taken. Ctrl-C ends the loop and keeps
    the results so far. What the user's code prints while it is loaded and run goes to stderr, so that
    the result on the standard output stays whole.

    Args:
        targets: The TARGETs as typed.
        request: How blocks are built and fed.
        work: What is done with each block. Whatever imports torch is imported in it, or behind this
            call: that the target exists has been checked by then. What the user's own code raises in
            it counts as an error of that block.

    Returns:
        The results, and the highest exit code of all targets. A fault of rescli's own is not caught.
    """
    results: list[Result] = []
    codes = [ExitCode.DONE]
    try:
        with contextlib.redirect_stdout(sys.stderr):
            for text in targets:
                with noted(codes), _staying_here():
                    _work_on(text, request, work, results, codes)
    except KeyboardInterrupt:
        write_note("Interrupted.")
        codes.append(ExitCode.INTERRUPTED)
    return Outcome(tuple(results), max(codes))


def _work_on(
    text: str,
    request: Request,
    work: Callable[[PreparedBlock], Result],
    results: list[Result],
    codes: list[ExitCode],
) -> None:
    parse_target(text)
    # Only now: a missing file is reported without waiting for torch.
    from rescli.spec.blame import blame_user  # noqa: PLC0415
    from rescli.spec.prepare import preparations  # noqa: PLC0415

    makes = preparations(text, request)
    before = list(codes)
    for make in makes:
        with noted(codes):
            block = make()
            with blame_user(block.spec_file, f"{block.target} could not be run"):
                results.append(work(block))
    if request.inputs and len(makes) > 1 and codes != before:
        write_note(
            f"Hint: --input is given to each of the {len(makes)} blocks of {text}; {text}:NAME takes one"
        )


@contextlib.contextmanager
def _staying_here() -> Iterator[None]:
    """Come back to this folder: a spec that changes it must not move the next target or the output."""
    try:
        here = Path.cwd()
    except FileNotFoundError:  # somebody has removed it; there is nothing to come back to
        yield
        return
    try:
        yield
    finally:
        os.chdir(here)


@contextlib.contextmanager
def noted(codes: list[ExitCode]) -> Iterator[None]:
    """Write an error of one target, note its exit code, and go on with the next."""
    try:
        yield
    except RescliError as error:
        write_error(error)
        codes.append(exit_code_of(error))
