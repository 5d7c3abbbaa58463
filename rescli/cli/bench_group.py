"""``rescli bench --parallel ddp``: the same command line in several processes, of which the first one speaks."""

from __future__ import annotations

import contextlib
import io
import signal
import sys
import threading
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import typer

from rescli.bench.failure import FailedAloneError, SilentPeersError
from rescli.cli.exit_codes import ExitCode, exit_code_of
from rescli.errors import CommandLineError, RescliError, SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType

    import torch

    from rescli.bench.peers import Peers
    from rescli.bench.place import Place

# How long a process waits, before it ends, to hear how the others do.
_FAREWELL = timedelta(seconds=5)
# Within this, a launcher notices that one of its processes has ended, and ends the others.
_LAUNCHER_IS_QUICKER_THAN_S = 10.0


@dataclass(frozen=True, slots=True)
class Member:
    """This process as one of a group.

    Args:
        peers: The group; None if it is alone.
        is_interrupted: Says whether Ctrl-C was pressed and waits to be noticed.
        words: Gives what this process has had to say so far, if it is not the one that speaks.
    """

    peers: Peers | None = None
    is_interrupted: Callable[[], bool] = lambda: False
    words: Callable[[], str] = str

    @property
    def reports(self) -> bool:
        """Whether it is the process that prints and writes files."""
        return self.peers is None or not self.peers.place.rank


def start(arguments: Sequence[str], processes: int, threads: int | None) -> int:
    """Run a command line in several new processes on this machine.

    Args:
        arguments: What was typed behind the name of the program.
        processes: How many.
        threads: Value of ``--threads``.

    Returns:
        The exit code.

    Raises:
        SpecError: A process died.
        KeyboardInterrupt: Ctrl-C was pressed; the first process has told of it.
    """
    from rescli.bench.launch import launch  # noqa: PLC0415 - torch comes with it

    command = [sys.executable, "-m", "rescli", *arguments]
    return launch(command, processes, threads=threads, spoken_codes=[int(code) for code in ExitCode])


def check_group_size(processes: int | None, place: Place) -> None:
    """Refuse another number of processes than a launcher has started.

    Args:
        processes: Value of ``--processes``.
        place: What the launcher says.

    Raises:
        CommandLineError: They differ.
    """
    if processes not in (None, place.size):
        raise CommandLineError(
            f"--processes {processes}: a launcher has started this command in {place.size} processes",
            hint="leave --processes out, or run rescli without torchrun",
        )


@contextlib.contextmanager
def membership(place: Place, device: torch.device) -> Iterator[Member]:
    """Measure as one process of a group; all but the first are silent unless they alone know what went wrong.

    Args:
        place: This process.
        device: Where its blocks run.

    Yields:
        The membership.

    Raises:
        typer.Exit: In all processes but the first, which has the same to say.
    """
    from rescli.bench.peers import join, leave  # noqa: PLC0415 - torch comes with it

    with _postponed_interrupts() as is_interrupted:
        peers = join(place, device)
        with _muted(place) as words:
            code = ExitCode.DONE
            error: RescliError | None = None
            try:
                yield Member(peers, is_interrupted, words.getvalue)
            except typer.Exit as ended:
                code = ExitCode(ended.exit_code)
            except FailedAloneError as failed:
                error = _failed_alone(failed, place)
            except SilentPeersError:
                time.sleep(_LAUNCHER_IS_QUICKER_THAN_S)
                error = SpecError(f"process {place.rank} of {place.size} hears nothing of the others")
            except RescliError as known:
                error = known
            code = code if error is None else exit_code_of(error)
            is_said = _is_said_by_the_first(peers, code)
        if place.rank and is_said:
            leave()
            raise typer.Exit
        if place.rank:
            sys.stderr.write(words.getvalue())
        if error is not None:
            raise error
        leave()
        if code:
            raise typer.Exit(code)


def _is_said_by_the_first(peers: Peers, code: ExitCode) -> bool:
    """Tell the others how this process ends, and say whether the first one ends alike."""
    try:
        return peers.exchange(code, patience=_FAREWELL)[0] == code
    except SilentPeersError:
        return False


def _failed_alone(error: FailedAloneError, place: Place) -> SpecError:
    failure = error.failure
    return SpecError(
        f"a block could not be run in process {place.rank} of {place.size}, and the others wait for it",
        details=f"{failure.trace}{failure.error}: {failure.message}",
    )


@contextlib.contextmanager
def _muted(place: Place) -> Iterator[io.StringIO]:
    """Keep what a process says to itself, unless it is the first one."""
    words = io.StringIO()
    if not place.rank:
        yield words
        return
    with contextlib.redirect_stderr(words), contextlib.redirect_stdout(io.StringIO()):
        yield words


@contextlib.contextmanager
def _postponed_interrupts() -> Iterator[Callable[[], bool]]:
    """Make of the first Ctrl-C a note: processes that stop at different points would wait for each other."""
    pressed = threading.Event()
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: FrameType | None) -> None:
        if pressed.is_set():
            signal.default_int_handler(number, frame)
        pressed.set()

    signal.signal(signal.SIGINT, note)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, before)
