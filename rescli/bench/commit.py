"""Which commit the code of a spec is at."""

from __future__ import annotations

import subprocess
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_PATIENCE_S = 5


@lru_cache(maxsize=64)
def commit_of(spec_file: Path | None) -> str | None:
    """Give the commit of the git repository that a spec lies in.

    Args:
        spec_file: The spec, or None if there is no file.

    Returns:
        The commit, with ``+`` behind it if a tracked file of the repository differs from it; None without a
        repository or without git.
    """
    if spec_file is None:
        return None
    head = _git(spec_file, "rev-parse", "--verify", "HEAD")
    # In a repository but not of it, as in an environment that is ignored: its commit says nothing.
    if head is None or _git(spec_file, "ls-files", "--error-unmatch", spec_file.name) is None:
        return None
    changed = _git(spec_file, "status", "--porcelain", "--untracked-files=no")
    return f"{head}+" if changed else head


def _git(spec_file: Path, *arguments: str) -> str | None:
    # Looking must not write: another git may be at work in the same repository.
    command = ["git", "--no-optional-locks", "-C", str(spec_file.resolve().parent), *arguments]
    try:
        done = subprocess.run(  # noqa: S603 - the words are ours, the file is the user's own
            command, capture_output=True, text=True, check=False, timeout=_PATIENCE_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
