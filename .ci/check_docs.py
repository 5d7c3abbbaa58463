"""Check the documentation against the program: its code runs, its outputs are real, its links lead somewhere.

Usage: python .ci/check_docs.py [--write]

    ```python     runs, each file's blocks one after the other in one namespace
    ```console    holds a line `$ rescli ...` and exactly what that prints at 80 columns
    docs/CLI.md   is what the commands' --help print
    links         to files of the repository name files that are there

With --write, outputs and docs/CLI.md are written anew instead.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from rescli.cli.app import COMMANDS

ROOT = Path(__file__).resolve().parent.parent
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CONSOLE_BLOCK = re.compile(r"^```console\n\$ (.+?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def run_rescli(command: str, cwd: Path) -> str:
    """Return what a `rescli` command line prints on both streams, at 80 columns and without colour."""
    words = shlex.split(command)
    if words[0] != "rescli":
        raise ValueError(f"only rescli commands are run, found: {command}")
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "PYTHONUTF8": "1", "TERM": "dumb"}
    done = subprocess.run(
        [sys.executable, "-m", "rescli", *words[1:]],
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        check=False,
    )
    return done.stdout


def with_real_outputs(text: str, cwd: Path) -> str:
    """Return a document with each console block holding what its command prints now."""
    return CONSOLE_BLOCK.sub(
        lambda block: f"```console\n$ {block[1]}\n{run_rescli(block[1], cwd).rstrip()}\n```", text
    )


def failures_of_code(path: Path, text: str) -> list[str]:
    """Run a document's Python blocks in one namespace; return what failed."""
    blocks = PYTHON_BLOCK.findall(text)
    if not blocks:
        return []
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", "\n".join(blocks)],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    return [] if done.returncode == 0 else [f"{path.name}: its Python code fails:\n{done.stderr}"]


def failures_of_links(path: Path, text: str) -> list[str]:
    """Return the links to files that are not there."""
    targets = [link for link in LINK.findall(text) if "://" not in link and not link.startswith("mailto:")]
    return [f"{path.name}: no file {link}" for link in targets if not (path.parent / link).exists()]


def command_reference(cwd: Path) -> str:
    """Return docs/CLI.md as the program's help stands."""
    parts = ["# Command line\n\nMade from `--help` by `python .ci/check_docs.py --write`.\n"]
    for command in ("", *COMMANDS):
        title = f"rescli {command}".strip()
        parts.append(f"## {title}\n\n```text\n{run_rescli(f'{title} --help', cwd).rstrip()}\n```\n")
    return "\n".join(parts)


def check(root: Path, *, write: bool) -> list[str]:
    """Check all documents below a root; return the failures.

    Args:
        root: A checkout: its README.md, CONTRIBUTING.md, CHANGELOG.md and docs/*.md.
        write: Whether to write outputs and docs/CLI.md anew.
    """
    reference = root / "docs" / "CLI.md"
    expected = command_reference(root)
    if write:
        reference.write_text(expected, encoding="utf-8")
    failures = []
    if not reference.is_file() or reference.read_text(encoding="utf-8") != expected:
        failures.append("docs/CLI.md is not what --help prints; run: python .ci/check_docs.py --write")
    for path in (*sorted(root.glob("*.md")), *sorted((root / "docs").glob("*.md"))):
        text = path.read_text(encoding="utf-8")
        real = with_real_outputs(text, root)
        if write and real != text:
            path.write_text(real, encoding="utf-8")
        elif real != text:
            failures.append(
                f"{path.name}: an output is not what is printed now; run: python .ci/check_docs.py --write"
            )
        failures += failures_of_code(path, text) + failures_of_links(path, text)
    return failures


def main() -> int:
    """Run the checks and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--write", action="store_true", help="write outputs and docs/CLI.md anew")
    failures = check(ROOT, write=parser.parse_args().write)
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
