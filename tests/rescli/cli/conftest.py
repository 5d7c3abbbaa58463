"""Run command lines in this process and see what a shell would see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import pytest

from rescli.cli.app import run

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Ended:
    """How a command line ended."""

    code: int
    out: str
    err: str


class RunRescli(Protocol):
    """Runs ``rescli`` with arguments."""

    def __call__(self, *arguments: str) -> Ended: ...


@pytest.fixture
def rescli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> RunRescli:
    """Run in a folder of its own, with a plain terminal of 80 columns."""
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TERM"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: str) -> Ended:
        capsys.readouterr()
        code = run(arguments)
        captured = capsys.readouterr()
        return Ended(code, captured.out, captured.err)

    return call
