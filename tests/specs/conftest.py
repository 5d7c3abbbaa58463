"""Look at specs as a program would: by the document that the command line gives."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from rescli.cli.app import run

if TYPE_CHECKING:
    from pathlib import Path


class Document(Protocol):
    """Runs a command of rescli and returns the JSON document it writes."""

    def __call__(self, *arguments: str) -> dict[str, Any]: ...


@pytest.fixture
def document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Document:
    def call(*arguments: str) -> dict[str, Any]:
        path = tmp_path / "result.json"
        code = run([*arguments, "--format", "json", "--output", str(path)])
        assert (code, capsys.readouterr().out) == (0, "")
        written: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return written

    return call
