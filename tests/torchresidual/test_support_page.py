"""The table of what works under what names tests that are there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "SUPPORT.md"
NAMED = re.compile(r"`((?:\w+/)?test_\w+\.py)::([\w:]+)`")


def rows(text: str) -> list[str]:
    """Return the rows of the tables, without their heads."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [line for line in lines if not line.startswith(("| Under", "| ---"))]


@cache
def _names_in(path: Path) -> frozenset[str]:
    """Return the names of a file's tests, ``Class::test`` for those in a class."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{one.name}" for one in node.body if isinstance(one, ast.FunctionDef)}
    return frozenset(name for name in found if name.rpartition("::")[2].startswith("test_"))


def missing(text: str) -> list[str]:
    """Return what a text names that is no test."""
    absent = []
    for file, name in NAMED.findall(text):
        path = TESTS / file if "/" in file else TESTS / "torchresidual" / file
        if not path.is_file() or name not in _names_in(path):
            absent.append(f"{file}::{name}")
    return absent


def test_every_test_that_the_page_names_is_there() -> None:
    assert missing(PAGE.read_text(encoding="utf-8")) == []


def test_every_row_says_what_holds_and_names_a_test_for_it() -> None:
    found = rows(PAGE.read_text(encoding="utf-8"))
    assert len(found) > 15
    for row in found:
        under, holds, tests, _ = (cell.strip() for cell in row.strip("|").split("|"))
        assert under
        assert holds
        assert NAMED.findall(tests), row


def test_a_name_that_is_no_test_is_found() -> None:
    here = Path(__file__).name
    text = (
        f"`{here}::{test_a_name_that_is_no_test_is_found.__name__}` `{here}::missing` `{here}::test_gone` "
        "`test_sizing.py::test_a_block_moved_to_meta_settles_there` `test_gone.py::test_a` `specs/test_gone.py::test_b`"
    )
    assert missing(text) == [
        f"{here}::missing",
        f"{here}::test_gone",
        "test_sizing.py::test_a_block_moved_to_meta_settles_there",
        "test_gone.py::test_a",
        "specs/test_gone.py::test_b",
    ]
