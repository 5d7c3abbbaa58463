from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from rescli.bench.commit import commit_of

if TYPE_CHECKING:
    from pathlib import Path

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    commit_of.cache_clear()
    path = tmp_path / "spec.py"
    path.write_text("a = 1\n")
    return path


def git(spec: Path, *arguments: str) -> str:
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(spec.parent), *who, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@needs_git
def test_the_commit_of_the_repository_is_found_and_a_change_is_marked(spec: Path) -> None:
    git(spec, "init", "-q")
    git(spec, "add", "spec.py")
    git(spec, "commit", "-q", "-m", "first")
    head = git(spec, "rev-parse", "HEAD")
    assert re.fullmatch(r"[0-9a-f]{40,64}", head)
    assert commit_of(spec) == head
    spec.write_text("a = 2\n")
    commit_of.cache_clear()
    assert commit_of(spec) == f"{head}+"


@needs_git
def test_a_file_that_the_repository_does_not_hold_has_none(spec: Path) -> None:
    assert commit_of(spec) is None
    git(spec, "init", "-q")
    git(spec, "commit", "-q", "--allow-empty", "-m", "first")
    commit_of.cache_clear()
    assert commit_of(spec) is None


def test_without_a_file_or_without_git_there_is_none(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert commit_of(None) is None
    monkeypatch.setenv("PATH", "")
    assert commit_of(spec) is None
