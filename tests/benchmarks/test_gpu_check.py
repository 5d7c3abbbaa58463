"""The script for a machine with a GPU: what it runs and how it ends, with a Python that only takes notes."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu_check.sh"
NOTES = """#!/usr/bin/env bash
printf '%s\\n' "$*" >> {notes}
case "$*" in *{fails}*) exit 7;; esac
"""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a shell script")


def ran(folder: Path, device: str, fails: str = "nothing") -> tuple[int, str, list[str]]:
    """Run the script, and give its exit code, what it prints and the command lines that Python got."""
    notes, python = folder / "notes", folder / "python"
    python.write_text(NOTES.format(notes=shlex.quote(str(notes)), fails=shlex.quote(fails)))
    python.chmod(0o755)
    environment = {**os.environ, "PYTHON": str(python), "DEVICE": device}
    done = subprocess.run(
        [str(SCRIPT), str(folder / "out")], env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, notes.read_text().splitlines()


def test_it_runs_the_tests_the_benchmarks_and_the_overhead_table(tmp_path: Path) -> None:
    code, out, lines = ran(tmp_path, "cuda")
    assert (code, "FAILED" in out) == (0, False)
    text = "\n".join(lines)
    for part in (
        "-m rescli env",
        "-m pytest -q -m cuda",
        "bench --quiet --save",
        "transformer --device cuda --max-time 8 --versus plain",
        "--parallel dp",
        "--parallel ddp --device cuda",
        "--compile",
        "benchmarks/overhead.py --device cuda --quick",
    ):
        assert part in text
    # Every file with a test for a GPU is named.
    assert "tests/rescli/bench/test_clock.py" in text


def test_without_a_gpu_it_ends_with_4_unless_the_cpu_is_asked_for(tmp_path: Path) -> None:
    code, out, lines = ran(tmp_path, "cuda", fails="is_available")
    assert (code, out, len(lines)) == (4, "torch sees no GPU here\n", 1)
    (tmp_path / "cpu").mkdir()
    code, _, lines = ran(tmp_path / "cpu", "cpu", fails="is_available")
    assert code == 0
    assert not any("dp " in line and "ddp" not in line for line in lines)


def test_a_step_that_fails_is_named_at_the_end_and_the_others_run(tmp_path: Path) -> None:
    code, out, lines = ran(tmp_path, "cuda", fails="--parallel dp")
    assert code == 1
    assert "=== dp FAILED with 7" in out
    assert out.rstrip().splitlines()[-1] == "failed: dp"
    assert "overhead.py" in lines[-1]
