"""The documentation check finds what it is there for."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

SCRIPT = Path(__file__).parents[2] / ".ci" / "check_docs.py"


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_docs", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def check_docs() -> ModuleType:
    return load_script()


@pytest.fixture
def checkout(tmp_path: Path, check_docs: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tiny checkout whose rescli prints a fixed text, so that nothing is run for real."""

    def printed(command: str, _: Path) -> str:
        return f"output of {command}\n"

    monkeypatch.setattr(check_docs, "run_rescli", printed)
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("# Title\n", encoding="utf-8")
    assert check_docs.check(tmp_path, write=True) == []
    return tmp_path


def test_documents_that_are_true_pass(checkout: Path, check_docs: ModuleType) -> None:
    (checkout / "README.md").write_text(
        "[docs](docs/CLI.md)\n```console\n$ rescli specs\noutput of rescli specs\n```\n"
        "```python\nassert 1 + 1 == 2\n```\n",
        encoding="utf-8",
    )
    assert check_docs.check(checkout, write=False) == []


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        (
            "```console\n$ rescli specs\nsomething else\n```\n",
            "README.md: an output is not what is printed now",
        ),
        ("```python\nassert 1 + 1 == 3\n```\n", "README.md: its Python code fails"),
        ("[docs](docs/nowhere.md)\n", "README.md: no file docs/nowhere.md"),
    ],
    ids=["output", "code", "link"],
)
def test_each_kind_of_untruth_is_found(
    checkout: Path, check_docs: ModuleType, fault: str, found: str
) -> None:
    (checkout / "README.md").write_text(fault, encoding="utf-8")
    (failure,) = check_docs.check(checkout, write=False)
    assert failure.startswith(found)


def test_a_command_reference_out_of_date_is_found(checkout: Path, check_docs: ModuleType) -> None:
    (checkout / "docs" / "CLI.md").write_text("old\n", encoding="utf-8")
    assert check_docs.check(checkout, write=False) == [
        "docs/CLI.md is not what --help prints; run: python .ci/check_docs.py --write"
    ]


def test_writing_makes_outputs_true(checkout: Path, check_docs: ModuleType) -> None:
    readme = checkout / "README.md"
    readme.write_text("```console\n$ rescli specs\nold\n```\n", encoding="utf-8")
    assert check_docs.check(checkout, write=True) == []
    assert readme.read_text(encoding="utf-8") == "```console\n$ rescli specs\noutput of rescli specs\n```\n"


def test_the_reference_holds_the_help_of_every_command(checkout: Path) -> None:
    reference = (checkout / "docs" / "CLI.md").read_text(encoding="utf-8")
    for command in (
        "rescli",
        "rescli show",
        "rescli bench",
        "rescli check-threads",
        "rescli specs",
        "rescli env",
    ):
        assert f"## {command}\n\n```text\noutput of {command} --help\n```" in reference
