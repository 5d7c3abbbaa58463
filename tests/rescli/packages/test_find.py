"""What is installed, from its metadata."""

from __future__ import annotations

import importlib.util
import sys
from importlib import metadata
from pathlib import Path

import pytest

import torchresidual
from rescli.packages.find import find_packages
from rescli.packages.result import Distribution


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install another distribution that brings a package of the library's name."""
    info = tmp_path / "torchresidual-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torchresidual\nVersion: 0.1.0\n")
    (info / "RECORD").write_text("torchresidual/__init__.py,,\ntorchresidual-0.1.0.dist-info/METADATA,,\n")
    monkeypatch.syspath_prepend(tmp_path)


def test_versions_are_those_of_the_metadata() -> None:
    versions = find_packages().versions
    assert versions["torch"] == metadata.version("torch")
    assert versions["rich"] == metadata.version("rich")


def test_what_is_not_installed_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", nothing)
    assert set(find_packages().versions.values()) == {None}


def test_the_library_beside_us_is_ours() -> None:
    facts = find_packages().torchresidual
    assert facts.path == str(Path(torchresidual.__file__).resolve().parent)
    assert facts.ours
    assert Distribution("torchresidual", "0.1.0") not in facts.also_provided_by


@pytest.mark.usefixtures("install")
def test_another_distribution_with_that_package_is_found() -> None:
    assert find_packages().torchresidual.also_provided_by == (Distribution("torchresidual", "0.1.0"),)


def test_a_library_from_elsewhere_is_not_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "torchresidual"
    other.mkdir()
    (other / "__init__.py").touch()
    monkeypatch.delitem(sys.modules, "torchresidual")
    monkeypatch.syspath_prepend(tmp_path)
    facts = find_packages().torchresidual
    assert (facts.path, facts.ours) == (str(other.resolve()), False)


def test_a_library_that_is_gone_has_no_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    facts = find_packages().torchresidual
    assert (facts.path, facts.ours) == (None, False)
