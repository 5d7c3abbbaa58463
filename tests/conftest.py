"""What every test may use."""

from __future__ import annotations

import gc
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


class Golden(Protocol):
    """Compares a text with the file of that name beside the test."""

    def __call__(self, name: str, text: str) -> None: ...


# A shell that starts the tests in the background has them ignore Ctrl-C, which some of them press.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--overwrite-golden", action="store_true", help="write what is printed now as the expected output"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not any(item.get_closest_marker("cuda") for item in items):
        return
    import torch

    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("cuda"):
            item.add_marker(pytest.mark.skip(reason="no GPU on this machine"))


@pytest.fixture(autouse=True)
def _the_same_weights_in_any_order() -> None:
    """Seed torch before each test: pytest-randomly, which shuffles them, seeds only Python and NumPy."""
    import torch

    torch.manual_seed(0)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Assert that a text equals ``golden/NAME`` beside the test; ``--overwrite-golden`` writes it instead."""
    folder = Path(str(request.node.path)).parent / "golden"

    def compare(name: str, text: str) -> None:
        path = folder / name
        if request.config.getoption("--overwrite-golden"):
            folder.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.is_file(), f"no golden file {path}; make it with: pytest --overwrite-golden"
        assert text == path.read_text(encoding="utf-8")

    return compare


def pytest_collection_finish() -> None:
    """Leave torch and the collected tests out of every later collection of garbage, which some tests ask for."""
    gc.collect()
    gc.freeze()
