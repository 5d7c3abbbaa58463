"""``rescli specs``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from rescli.spec.target import shipped_specs

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.rescli.cli.conftest import RunRescli


def test_each_shipped_spec_is_a_line(rescli: RunRescli, golden: Callable[[str, str], None]) -> None:
    ended = rescli("specs")
    assert (ended.code, ended.err) == (0, "")
    golden("specs.txt", ended.out)


def test_the_list_fits_80_columns_of_ascii(rescli: RunRescli) -> None:
    out = rescli("specs").out
    assert out.isascii()
    assert max(map(len, out.splitlines())) <= 80


def test_the_list_is_a_document_for_programs(rescli: RunRescli) -> None:
    document = json.loads(rescli("specs", "--format", "json").out)
    assert document["schema"] == "rescli.specs/1"
    assert [spec["name"] for spec in document["specs"]] == [spec.name for spec in shipped_specs()]
    (resnet,) = (spec for spec in document["specs"] if spec["name"] == "resnet18")
    assert resnet["quick"] is False
    assert resnet["summary"] == "ResNet-18 for images: 8 skips, 3 projected"
    assert Path(resnet["path"]).name == "resnet18.py"


def test_the_ending_of_the_file_tells_the_format(rescli: RunRescli) -> None:
    ended = rescli("specs", "-o", "list.json")
    assert (ended.code, ended.out, ended.err) == (0, "", "")
    assert json.loads(Path("list.json").read_text())["schema"] == "rescli.specs/1"
    rescli("specs", "--output", "list.txt")
    assert Path("list.txt").read_text() == rescli("specs").out
