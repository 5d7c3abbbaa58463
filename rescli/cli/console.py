"""The two streams of the terminal: what they can show, and how results and errors get there."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from rescli.errors import FileError
from rescli.render.charset import can_draw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_PIPE_WIDTH = 80
_CLEAR_LINE = "\r\x1b[K"
# Whether the last thing on stderr is a progress line; threads of a benchmark may write it.
_line_stands = threading.Event()


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """What one stream can show.

    Args:
        width: Columns to lay text out for; 80 where there is no terminal and ``COLUMNS`` is not set.
        color: Whether escape sequences are wanted.
        ascii: Whether only ASCII characters can be written.
        tty: Whether a person looks at it.
    """

    width: int
    color: bool
    ascii: bool
    tty: bool


@dataclass(frozen=True, slots=True)
class Streams:
    """What the standard output and the standard error stream can show."""

    stdout: StreamFacts
    stderr: StreamFacts

    @classmethod
    def detect(cls, environ: Mapping[str, str] | None = None) -> Streams:
        """Look at the streams of this process.

        Args:
            environ: The environment; ``NO_COLOR``, ``FORCE_COLOR``, ``TERM`` and ``COLUMNS`` are honoured.
                The one of the process if None.
        """
        environ = os.environ if environ is None else environ
        return cls(stdout=_facts(sys.stdout, environ), stderr=_facts(sys.stderr, environ))


def _facts(stream: TextIO | None, environ: Mapping[str, str]) -> StreamFacts:
    tty = stream is not None and not stream.closed and stream.isatty()
    forced = bool(environ.get("FORCE_COLOR"))
    capable = tty and environ.get("TERM") != "dumb"
    return StreamFacts(
        width=_width(stream, environ, tty=tty),
        color=not environ.get("NO_COLOR") and (forced or capable),
        ascii=not can_draw(getattr(stream, "encoding", None)),
        tty=tty,
    )


def _width(stream: TextIO | None, environ: Mapping[str, str], *, tty: bool) -> int:
    asked = environ.get("COLUMNS", "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    if tty and stream is not None:
        # A stand-in for a terminal may have no size.
        with contextlib.suppress(OSError, ValueError):
            return os.get_terminal_size(stream.fileno()).columns or _PIPE_WIDTH
    return _PIPE_WIDTH


def prepare_streams() -> None:
    """Make the standard streams safe to write any text to.

    A name that the stream cannot encode is written as an escape instead of ending the program, and a
    stream that was closed before we started (``>&-``) is replaced by one that swallows everything.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            # Lives as long as the process.
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def write_result(text: str, output: Path | None) -> None:
    """Write a finished result to the standard output, or whole or not at all to a file.

    Args:
        text: The result; it is ended with a newline if it is not yet.
        output: The file, or None for the standard output.

    Raises:
        FileError: The file cannot be written; what stood there before still does.
        BrokenPipeError: The reader of the standard output has gone.
    """
    if not text.endswith("\n"):
        text += "\n"
    if output is None:
        with output_errors():
            sys.stdout.write(text)
    else:
        write_file(output, text)


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all, and never half.

    Args:
        path: Where to. A link is followed; a device or a pipe is written to as it is.
        content: What to write; text in UTF-8.

    Raises:
        FileError: The file cannot be written; what stood there before still does.
    """
    check_writable(path)
    try:
        _replace(path, content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise _unwritable(path, error) from error


def check_writable(path: Path) -> None:
    """Find out before the work begins that its result could not be written.

    Args:
        path: The file that will be written.

    Raises:
        FileError: It is a folder, its folder does not exist, or it may not be written.
    """
    folder = path.parent
    if path.is_dir():
        raise FileError(f"cannot write {path}: it is a folder", hint=f"name a file in it, as {path}/result")
    if not folder.is_dir():
        raise FileError(f"cannot write {path}: there is no folder {folder}", hint=f"mkdir -p {folder}")
    if path.exists() and not os.access(path, os.W_OK):
        raise FileError(f"cannot write {path}: the file is write-protected")
    if not path.exists() and not os.access(folder, os.W_OK):
        raise FileError(f"cannot write {path}: no file can be made in the folder {folder}")


def _replace(path: Path, content: bytes) -> None:
    path = path.resolve()
    mode = path.stat().st_mode if path.exists() else None
    if mode is not None and not stat.S_ISREG(mode):
        path.write_bytes(content)
        return
    # Beside the target, because a rename is atomic within one file system only.
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    try:
        unfinished.write_bytes(content)
        if mode is not None:
            unfinished.chmod(stat.S_IMODE(mode))
        unfinished.replace(path)
    except BaseException:
        # Ctrl-C as well: nothing half-written stays behind.
        unfinished.unlink(missing_ok=True)
        raise


def _unwritable(path: Path, error: OSError) -> FileError:
    reason = os.strerror(error.errno) if error.errno else str(error)
    return FileError(f"cannot write {path}: {reason[:1].lower()}{reason[1:]}")


def flush_output() -> None:
    """Hand everything written so far to the reader.

    Raises:
        BrokenPipeError: The reader has gone; what it did not read is dropped.
        FileError: The standard output goes to a place that takes no more, as a full disk.
    """
    with output_errors():
        sys.stdout.flush()


@contextlib.contextmanager
def output_errors() -> Iterator[None]:
    """Tell what goes wrong while something is written to the standard output.

    Raises:
        BrokenPipeError: The reader has gone; what it did not read is dropped.
        FileError: The standard output goes to a place that takes no more, as a full disk.
    """
    try:
        yield
    except OSError as error:
        drop_output()
        # Windows says EINVAL where a pipe has no reader.
        if error.errno in (errno.EPIPE, errno.EINVAL):
            raise BrokenPipeError from error
        raise _unwritable(Path("the standard output"), error) from error


def drop_output() -> None:
    """Send what the interpreter still flushes when it ends to nowhere, as nobody reads it."""
    _drop(sys.stdout)


def _drop(stream: TextIO) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def write_note(text: str) -> None:
    """Tell the person at the terminal something that is not part of the result, on stderr.

    Args:
        text: One line or several. A progress line that stands there makes way.
    """
    try:
        sys.stderr.write(f"{_CLEAR_LINE if _line_stands.is_set() else ''}{text}\n")
        sys.stderr.flush()
    except OSError:  # nobody listens, or the disk is full: the exit code still tells
        _drop(sys.stderr)
    _line_stands.clear()


@contextlib.contextmanager
def progress(streams: Streams, *, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Show on one line of stderr what long work is doing, if a person is watching.

    Args:
        streams: What the streams can show.
        quiet: Show nothing.

    Yields:
        A function that replaces the line by the text it is given. The line is gone at the end.
    """
    if quiet or not streams.stderr.tty or os.environ.get("TERM") == "dumb":
        yield lambda _: None
        return

    def say(text: str) -> None:
        # One column is left free: a full line would wrap on some terminals.
        sys.stderr.write(f"{_CLEAR_LINE}{text[: streams.stderr.width - 1]}")
        sys.stderr.flush()
        _line_stands.set()

    try:
        yield say
    finally:
        sys.stderr.write(_CLEAR_LINE)
        sys.stderr.flush()
        _line_stands.clear()
