from __future__ import annotations

import pytest

from rescli.graph.model import Diagnostic, LintedBlock
from rescli.render.lint_text import render_lint_text
from rescli.render.style import Style

UNUSED = Diagnostic(
    "unused-record", "warning", "0", "the record 'a' is never read by an Apply", "take it out"
)
FAILED = Diagnostic("layer-failed", "error", "", "Linear failed on input (2, 4, 8): no\nnot at all", "")
TWICE = Diagnostic("skip-applied-twice", "note", "1.0", "it is applied 2 times", "")

FOUND = LintedBlock("bad", "a.py:bad", (FAILED, UNUSED, TWICE))
CLEAN = LintedBlock("good", "a.py:good", ())


def test_a_block_with_findings_is_named_and_one_without_is_counted() -> None:
    assert render_lint_text([CLEAN, FOUND, CLEAN], Style(80)) == (
        "a.py:bad\n"
        "error (layer-failed): Linear failed on input (2, 4, 8): no\n"
        "  not at all\n"
        "warning at '0' (unused-record): the record 'a' is never read by an Apply\n"
        "  hint: take it out\n"
        "note at '1.0' (skip-applied-twice): it is applied 2 times\n"
        "\n"
        "3 blocks: 1 error, 1 warning, 1 note\n"
    )


def test_narrow_streams_get_more_lines_and_shapes_stay_whole() -> None:
    text = render_lint_text([FOUND], Style(30))
    assert text.startswith(
        "a.py:bad\nerror (layer-failed): Linear\n  failed on input (2, 4, 8):\n  no\n  not at all\n"
    )
    assert max(len(line) for line in text.splitlines()) <= 30


@pytest.mark.parametrize(
    ("blocks", "summary"),
    [
        ([], "0 blocks: nothing found\n"),
        ([CLEAN], "1 block: nothing found\n"),
        ([CLEAN] * 1234, "1,234 blocks: nothing found\n"),
    ],
)
def test_nothing_found_is_said(blocks: list[LintedBlock], summary: str) -> None:
    assert render_lint_text(blocks, Style(80)) == summary


def test_colour_marks_the_severity_alone() -> None:
    text = render_lint_text([FOUND], Style(80, color=True))
    assert "\x1b[1;31merror\x1b[0m (layer-failed)" in text
    assert "\x1b[1;33mwarning\x1b[0m at '0'" in text
    assert "\x1b[1;36mnote\x1b[0m at '1.0'" in text
    assert text.startswith("\x1b[1ma.py:bad\x1b[0m\n")


def test_nothing_that_somebody_wrote_reaches_the_terminal_as_a_command() -> None:
    evil = Diagnostic("layer-failed", "error", "a\x1b[2J", "first \x1b[31m\nsecond \x07", "hint \x9b")
    text = render_lint_text([LintedBlock("bad", "\x1b]0;title\x07.py:bad", (evil,))], Style(80))
    assert text == (
        r"\x1b]0;title\x07.py:bad" + "\n"
        r"error at 'a\x1b[2J' (layer-failed): first \x1b[31m" + "\n"
        r"  second \x07" + "\n"
        r"  hint: hint \x9b" + "\n"
        "\n"
        "1 block: 1 error\n"
    )
