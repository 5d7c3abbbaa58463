"""docs/ARCHITECTURES.md is what the specs give."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.specs.test_architectures import FIGURES

if TYPE_CHECKING:
    from types import ModuleType

    from tests.specs.conftest import Shown

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("architectures", ROOT / ".ci" / "architectures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date(script: ModuleType, shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "show", shown)
    written = (ROOT / "docs" / "ARCHITECTURES.md").read_text(encoding="utf-8")
    assert script.page() == written, "run: python .ci/architectures.py --write"


def test_the_page_has_a_row_for_each_network_whose_figures_are_known(script: ModuleType) -> None:
    assert set(script.ROWS) == set(FIGURES)


def test_a_row_has_what_show_counts_and_the_paper(script: ModuleType) -> None:
    assert script.row("highway --input 1x50") == (
        "`highway --input 1x50`",
        "1x50",
        "7,650",
        "15,000",
        "1 highway",
        "200",
        "5,100",
        "[Srivastava 2015](https://arxiv.org/abs/1505.00387)",
    )


def test_a_page_that_is_behind_is_reported_and_written_anew(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "ARCHITECTURES.md"
    page.write_text("| old |\n", encoding="utf-8")
    monkeypatch.setattr(script, "PAGE", page)
    monkeypatch.setattr(script, "ROWS", ("rezero_layer",))
    monkeypatch.setattr("sys.argv", ["architectures.py"])
    assert script.main() == 1
    assert "architectures.py --write" in capsys.readouterr().err
    monkeypatch.setattr("sys.argv", ["architectures.py", "--write"])
    assert script.main() == 0
    assert "| 3,150,337 |" in page.read_text(encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["architectures.py"])
    assert script.main() == 0


def test_a_command_that_fails_is_not_taken_for_a_row(
    script: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RuntimeError, match="rescli show resnet50 --set depth=7 failed"):
        script.show("resnet50 --set depth=7")
    assert "found 7" in capsys.readouterr().err
