"""What streams can show, and how results reach them or a file."""

from __future__ import annotations

import io
import os
import stat
import sys
from pathlib import Path

import pytest

from rescli.cli import console
from rescli.cli.console import (
    StreamFacts,
    Streams,
    check_writable,
    flush_output,
    prepare_streams,
    progress,
    write_file,
    write_note,
    write_result,
)
from rescli.errors import FileError

ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


class Terminal(io.TextIOWrapper):
    """A stream that says a person looks at it."""

    def __init__(self, encoding: str = "utf-8") -> None:
        super().__init__(io.BytesIO(), encoding=encoding, write_through=True)

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        raise OSError

    def text(self) -> str:
        buffer = self.buffer
        assert isinstance(buffer, io.BytesIO)
        return buffer.getvalue().decode(self.encoding)


def facts(stream: io.TextIOBase, monkeypatch: pytest.MonkeyPatch, **environ: str) -> StreamFacts:
    monkeypatch.setattr(sys, "stdout", stream)
    return Streams.detect(environ).stdout


def test_a_pipe_has_80_columns_and_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    assert facts(pipe, monkeypatch) == StreamFacts(width=80, color=False, ascii=False, tty=False)


def test_a_terminal_has_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    assert facts(Terminal(), monkeypatch) == StreamFacts(width=80, color=True, ascii=False, tty=True)


@pytest.mark.parametrize(
    "environ", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"NO_COLOR": "1", "FORCE_COLOR": "1"}]
)
def test_colour_can_be_refused(monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]) -> None:
    assert not facts(Terminal(), monkeypatch, **environ).color


def test_an_empty_no_color_refuses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert facts(Terminal(), monkeypatch, NO_COLOR="").color


def test_colour_can_be_forced_into_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    assert facts(io.TextIOWrapper(io.BytesIO()), monkeypatch, FORCE_COLOR="1").color


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp437"])
def test_a_stream_that_cannot_encode_the_picture_is_ascii(
    monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    assert facts(Terminal(encoding), monkeypatch).ascii


@pytest.mark.parametrize(("columns", "width"), [("40", 40), ("0", 80), ("wide", 80), ("", 80)])
def test_columns_sets_the_width(monkeypatch: pytest.MonkeyPatch, columns: str, width: int) -> None:
    assert facts(Terminal(), monkeypatch, COLUMNS=columns).width == width


def test_a_real_terminal_tells_its_width(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(terminal, "fileno", lambda: 1)
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((133, 40)))
    assert facts(terminal, monkeypatch).width == 133


def test_a_stream_that_was_closed_before_the_start_swallows_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert Streams.detect({}).stdout == StreamFacts(width=80, color=False, ascii=True, tty=False)
    prepare_streams()
    write_result("nobody hears this", None)
    sys.stdout.close()


def test_a_name_that_cannot_be_encoded_is_written_as_an_escape(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal("ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    prepare_streams()
    write_result("größe", None)
    assert stream.text() == "gr\\xf6\\xdfe\n"


def test_a_result_ends_with_one_newline(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write_result("a", None)
    write_result("b\n", None)
    assert capsys.readouterr().out == "a\nb\n"
    write_result("a", tmp_path / "file")
    assert (tmp_path / "file").read_text() == "a\n"


def test_a_file_is_replaced_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_text("old")
    path.chmod(0o640)
    write_file(path, "new ×\n")
    assert path.read_text(encoding="utf-8") == "new ×\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_what_cannot_be_written_whole_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    whole = Path.write_bytes

    def half(self: Path, content: bytes) -> int:
        whole(self, content[:2])
        raise error

    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.raises((FileError, KeyboardInterrupt)) as caught:
        write_file(path, "new")
    if isinstance(error, OSError):
        assert str(caught.value) == f"cannot write {path}: no space left on device"
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_plain_write_would_have_left_half_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The twin of the test above: it would notice a write_file that writes in place.
    path = tmp_path / "file"
    path.write_text("old")
    monkeypatch.setattr(console, "_replace", lambda path, content: path.write_bytes(content[:2]))
    write_file(path, "new")
    assert path.read_text() != "old"


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_file(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


@pytest.mark.skipif(not Path("/dev/null").exists(), reason="no devices as files")
def test_a_device_stays_a_device() -> None:
    write_file(Path("/dev/null"), "text")
    assert not Path("/dev/null").is_file()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_device_is_an_error() -> None:
    with pytest.raises(FileError, match="cannot write /dev/full: no space left on device"):
        write_file(Path("/dev/full"), "text")


def test_a_folder_or_a_missing_folder_is_noticed_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="it is a folder"):
        check_writable(tmp_path)
    with pytest.raises(FileError, match="there is no folder") as caught:
        check_writable(tmp_path / "missing" / "file")
    assert caught.value.hint == f"mkdir -p {tmp_path / 'missing'}"


@pytest.mark.skipif(ROOT, reason="root may write everything")
def test_protection_is_noticed_before_the_work(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch(0o444)
    with pytest.raises(FileError, match="the file is write-protected"):
        check_writable(path)
    path.unlink()
    tmp_path.chmod(0o555)
    with pytest.raises(FileError, match="no file can be made in the folder"):
        check_writable(path)
    tmp_path.chmod(0o755)


def test_protection_is_asked_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(FileError, match="no file can be made in the folder"):
        check_writable(tmp_path / "file")
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match="the file is write-protected"):
        check_writable(tmp_path / "file")


class Closed(io.StringIO):
    """An output that takes nothing."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self.error = error

    def flush(self) -> None:
        raise self.error


@pytest.mark.parametrize("error", [BrokenPipeError(32, "Broken pipe"), OSError(22, "Invalid argument")])
def test_a_reader_that_has_gone_is_told_apart(monkeypatch: pytest.MonkeyPatch, error: OSError) -> None:
    monkeypatch.setattr(sys, "stdout", Closed(error))
    with pytest.raises(BrokenPipeError):
        flush_output()


def test_a_full_output_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Closed(OSError(28, "No space left on device")))
    with pytest.raises(FileError, match="cannot write the standard output: no space left on device"):
        flush_output()


def streams(*, tty: bool, width: int = 80) -> Streams:
    one = StreamFacts(width=width, color=False, ascii=False, tty=tty)
    return Streams(stdout=one, stderr=one)


def test_progress_is_one_line_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress(streams(tty=True, width=10)) as say:
        say("half")
        say("a line that is too long")
    clear = "\r\x1b[K"
    assert terminal.text() == f"{clear}half{clear}a line th{clear}"


def test_a_note_takes_the_place_of_the_progress_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress(streams(tty=True)) as say:
        write_note("one")
        say("half")
        write_note("two")
        write_note("three")
    clear = "\r\x1b[K"
    assert terminal.text() == f"one\n{clear}half{clear}two\nthree\n{clear}"


@pytest.mark.parametrize(
    ("tty", "quiet", "term"), [(False, False, "xterm"), (True, True, "xterm"), (True, False, "dumb")]
)
def test_progress_is_silent_without_somebody_who_wants_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, tty: bool, quiet: bool, term: str
) -> None:
    monkeypatch.setenv("TERM", term)
    with progress(streams(tty=tty), quiet=quiet) as say:
        say("half")
    assert capsys.readouterr().err == ""
