from __future__ import annotations

import os
import signal
import sys
import time
from typing import TYPE_CHECKING

import pytest

from rescli.bench.launch import launch
from rescli.errors import SpecError

if TYPE_CHECKING:
    from pathlib import Path

# What the processes run: no torch in them, so they start at once.
WRITES = (
    "import os, pathlib, sys; rank = os.environ['RANK'];"
    "(pathlib.Path(sys.argv[1]) / rank).write_text(f\"{os.getpid()} {os.environ['OMP_NUM_THREADS']}\");"
)
WAITS = "import time; time.sleep(60)"


def command(code: str, folder: Path) -> list[str]:
    return [sys.executable, "-c", WRITES + code, str(folder)]


def written(folder: Path) -> dict[str, list[str]]:
    return {path.name: path.read_text().split() for path in sorted(folder.iterdir())}


def still_run(folder: Path) -> list[int]:
    """Name the processes of a launch that have not ended, after a moment in which they may."""
    left = [int(pid) for pid, _ in written(folder).values()]
    for _ in range(50):
        left = [pid for pid in left if _is_alive(pid)]
        if not left:
            break
        time.sleep(0.02)
    return left


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_each_process_knows_its_place_and_its_threads(tmp_path: Path) -> None:
    before = dict(os.environ)
    assert launch(command("", tmp_path), 2, threads=3) == 0
    assert {rank: threads for rank, (_, threads) in written(tmp_path).items()} == {"0": "3", "1": "3"}
    assert dict(os.environ) == before
    assert still_run(tmp_path) == []


def test_a_process_that_dies_takes_the_others_with_it_and_is_named(tmp_path: Path) -> None:
    code = f"os.kill(os.getpid(), 9) if rank == '1' else exec({WAITS!r})"
    with pytest.raises(SpecError, match=r"^process 1 of 2 was killed by SIGKILL$"):
        launch(command(code, tmp_path), 2)
    assert still_run(tmp_path) == []


@pytest.mark.parametrize(("code", "spoken"), [(3, True), (9, False)])
def test_only_a_code_that_has_been_explained_is_passed_on(tmp_path: Path, code: int, spoken: bool) -> None:
    ends = command(f"sys.exit({code})", tmp_path)
    if spoken:
        assert launch(ends, 1, spoken_codes=[3]) == code
    else:
        with pytest.raises(SpecError, match="process 0 of 1 ended with exit code 9, without a word"):
            launch(ends, 1, spoken_codes=[3])


def test_ctrl_c_reaches_every_process_and_the_handlers_are_put_back(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    # Both of them are ready for the signal when they have written; the first one sends it, as a terminal would.
    # An import that the signal hits may say so on stderr.
    ready = "import os, pathlib, signal, sys, time; signal.signal(signal.SIGINT, lambda *_: sys.exit(0));"
    code = (
        "os.kill(os.getppid(), signal.SIGINT) if rank == '0' and not exec("
        "'import time\\nwhile len(os.listdir(sys.argv[1])) < 2: time.sleep(0.01)') else None;" + WAITS
    )
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            launch([sys.executable, "-c", ready + WRITES + code, str(tmp_path)], 2)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert still_run(tmp_path) == []
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")
