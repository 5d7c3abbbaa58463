"""The comparison with the published library: what counts as expected, without running it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

FILE = Path(__file__).parents[2] / "benchmarks" / "threads_peer.py"


@pytest.fixture
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("threads_peer", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def row(scenario: str, status: str) -> dict[str, object]:
    return {"block": "add", "scenario": scenario, "status": status, "runs": 9, "wrong": 0, "detail": "why"}


@pytest.mark.parametrize(
    ("peer", "ours", "code"),
    [
        ("fail", "pass", 0),
        ("pass", "pass", 1),
        ("fail", "fail", 1),
        ("fail", "skip", 1),
    ],
)
def test_the_published_one_must_fail_and_ours_must_pass(
    script: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    peer: str,
    ours: str,
    code: int,
) -> None:
    (tmp_path / "torchresidual").mkdir()
    (tmp_path / "torchresidual" / "__init__.py").touch()
    monkeypatch.setattr(sys, "argv", ["threads_peer.py", "--peer", str(tmp_path)])
    monkeypatch.setattr(
        script,
        "run_child",
        lambda folder, _: [
            row("shared", peer if folder == tmp_path else ours),
            row("stress", "skip"),
        ],
    )
    assert script.main() == code
    assert ("NOT AS EXPECTED: why" in capsys.readouterr().out) == bool(code)


def test_a_folder_without_the_package_is_refused(
    script: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(sys, "argv", ["threads_peer.py", "--peer", str(tmp_path)])
    with pytest.raises(SystemExit):
        script.main()
    assert f"{tmp_path} holds no torchresidual/" in capsys.readouterr().err
