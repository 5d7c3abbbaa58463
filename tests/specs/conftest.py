"""Look at specs as a program would: by the document that the command line gives."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any, Protocol

import pytest
import torch

from rescli.cli.app import run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


class Document(Protocol):
    """Runs a command of rescli and returns the JSON document it writes."""

    def __call__(self, *arguments: str) -> dict[str, Any]: ...


class Shown(Protocol):
    """Returns what ``rescli show`` says of the one block of a command line."""

    def __call__(self, arguments: str) -> dict[str, Any]: ...


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Compute in one thread: on small settings more of them only wait for each other, on a busy machine for long."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Document:
    def call(*arguments: str) -> dict[str, Any]:
        written = write(tmp_path, arguments)
        assert capsys.readouterr().out == ""
        return written

    return call


@pytest.fixture(scope="session")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    """Look at each network once in a session: some take a second."""
    folder = tmp_path_factory.mktemp("shown")

    @functools.cache
    def call(arguments: str) -> dict[str, Any]:
        (block,) = write(folder, ("show", *arguments.split()))["blocks"]
        return dict(block)

    return call


def write(folder: Path, arguments: Sequence[str]) -> dict[str, Any]:
    path = folder / "result.json"
    assert run([*arguments, "--format", "json", "--output", str(path)]) == 0
    written: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return written
