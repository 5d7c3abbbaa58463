"""A folder of its own for each test, and a quick way to a spec in it."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from pathlib import Path


class WriteSpec(Protocol):
    """Writes a spec file into the test's folder and gives its path as text."""

    def __call__(self, text: str, name: str = "net.py") -> str: ...


@pytest.fixture
def write_spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WriteSpec:
    monkeypatch.chdir(tmp_path)

    def write(text: str, name: str = "net.py") -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return name

    return write
