"""What `rescli show` prints of each shipped spec, on narrow, usual and wide terminals."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import pytest

from rescli.graph.outline.build import outline
from rescli.graph.outline.model import ShownBlock
from rescli.graph.trace import trace
from rescli.render.columns import columns_of
from rescli.render.show_text import render_show_text
from rescli.render.style import Style
from rescli.spec.prepare import Request, prepare
from rescli.spec.target import shipped_specs

if TYPE_CHECKING:
    from rescli.graph.model import BlockGraph
    from tests.conftest import Golden

SPECS = [spec.name for spec in shipped_specs()]
WIDTHS = (60, 80, 160)


@lru_cache(maxsize=1)
def graph_of(name: str) -> BlockGraph:
    """Look at a spec without data: a large network takes a second for real."""
    (block,) = prepare(name, Request())
    return trace(
        block.module, block.inputs, name=block.name, target=block.target, origin=block.origin, device="meta"
    )


def picture(name: str, style: Style) -> str:
    graph = graph_of(name)
    return render_show_text([ShownBlock(graph, outline(graph))], style)


@pytest.mark.parametrize("name", SPECS)
def test_a_shipped_spec_is_drawn_as_expected_and_fits(name: str, golden: Golden) -> None:
    pictures = {width: picture(name, Style(width)) for width in WIDTHS}
    for width, text in pictures.items():
        assert max(map(columns_of, text.splitlines())) <= width
    plain = picture(name, Style(80, ascii=True))
    assert plain.isascii()
    assert max(map(len, plain.splitlines())) <= 80
    rules = {width: f"{f' {width} columns ':=^{width}}\n" for width in WIDTHS}
    golden(f"{name}.txt", "\n".join(rules[width] + text for width, text in pictures.items()))
