from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from rescli.render.document import document


@dataclass(frozen=True, slots=True)
class Fact:
    name: str
    sizes: tuple[int, ...]
    inner: Fact | None = None


def test_dataclasses_become_objects_in_the_order_of_their_fields() -> None:
    text = document("rescli.test/1", facts=(Fact("a", (1, 2), Fact("b", ())),), more={1: True})
    assert json.loads(text) == {
        "schema": "rescli.test/1",
        "facts": [{"name": "a", "sizes": [1, 2], "inner": {"name": "b", "sizes": [], "inner": None}}],
        "more": {"1": True},
    }
    assert text.index('"name"') < text.index('"sizes"') < text.index('"inner"')


def test_numbers_that_json_does_not_have_become_null() -> None:
    text = document("rescli.test/1", values=[float("nan"), float("inf"), -float("inf"), 1.5])
    assert json.loads(text)["values"] == [None, None, None, 1.5]


def test_text_outside_ascii_is_escaped() -> None:
    text = document("rescli.test/1", name="größe → 1")
    assert text.isascii()
    assert json.loads(text)["name"] == "größe → 1"


def test_a_value_of_another_type_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot hold"):
        document("rescli.test/1", path=Path("here"))
