"""The shipped specs, a line each."""

from __future__ import annotations

from pathlib import Path

from rescli.render.specs_text import render_specs_text
from rescli.spec.model import ShippedSpec


def test_names_marks_and_summaries_are_aligned() -> None:
    specs = [
        ShippedSpec("a", Path("a.py"), "The first", quick=True),
        ShippedSpec("longer", Path("longer.py"), "The second", quick=False),
    ]
    assert render_specs_text(specs) == "a       quick  The first\nlonger         The second\n"


def test_no_specs_are_no_lines() -> None:
    assert render_specs_text([]) == ""
