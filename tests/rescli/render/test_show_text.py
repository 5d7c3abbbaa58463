from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn

from rescli.graph.outline.build import outline
from rescli.graph.outline.model import ShownBlock
from rescli.graph.trace import trace
from rescli.render.show_text import render_show_text
from rescli.render.style import Style
from tests.rescli.graph import blocks
from torchresidual import Apply, LearnableAlpha, Record, RecurrentWrapper, ResidualSequential

if TYPE_CHECKING:
    from collections.abc import Callable

    from rescli.graph.model import BlockGraph
    from tests.conftest import Golden
    from tests.rescli.graph.blocks import Case

_ESCAPE = re.compile(r"\x1b\[[\d;]*m")


def text_of(graph: BlockGraph, style: Style, *, depth: int | None = None, fold: bool = True) -> str:
    return render_show_text([ShownBlock(graph, outline(graph, depth=depth, fold=fold))], style)


def graph_of(case: Case, name: str) -> BlockGraph:
    module, inputs = case
    return trace(module, inputs, name=name, target=f"spec.py:{name}", origin="spec")


def encoder() -> Case:
    """Every operation, crossing and nested skips, several readers, projections and gates, learned weights."""
    inner = ResidualSequential(
        Record(name="inner"),
        nn.Conv1d(128, 128, 3, padding=1),
        Apply("gated", "inner", alpha=LearnableAlpha(0.01, 1e-4, 1.0)),
    )
    block = ResidualSequential(
        Record(True, "input"),
        nn.Conv1d(64, 128, 3, padding=1),
        nn.ReLU(inplace=True),
        Record(name="mid"),
        inner,
        Apply("add", "input", scale=nn.Parameter(torch.zeros(1))),
        nn.BatchNorm1d(128),
        Apply("highway", "mid"),
        nn.Conv1d(128, 64, 1),
        Apply("concat", "mid"),
    )
    return block, (torch.zeros(4, 64, 100),)


def sequence() -> Case:
    """Outputs of several tensors, a layer used twice, operations that cannot be counted, another type."""
    activation = nn.Tanh()
    block = nn.Sequential(
        ResidualSequential(
            Record(True), activation, RecurrentWrapper(nn.LSTM(8, 16, batch_first=True)), activation, Apply()
        ),
        nn.Linear(16, 8),
        blocks.Layer(lambda x, weight: (torch.fft.rfft(x @ weight).real).to(torch.float64)),
    )
    block[1].requires_grad_(requires_grad=False)
    return block, (torch.zeros(2, 5, 8),)


def mismatched() -> Case:
    block = ResidualSequential(
        Record(name="unused"),
        Record(name="input"),
        nn.Conv2d(3, 8, 3, 2, 1),
        Apply("add", "input"),
        nn.Linear(3, 3),
    )
    return block, (torch.zeros(1, 3, 15, 15),)


def repeated() -> Case:
    """Equal blocks, groups of layers, groups in blocks, and a skip around them all."""

    def stage() -> nn.Module:
        return nn.Sequential(
            *(
                ResidualSequential(
                    Record(name=f"skip{number}"), nn.Linear(8, 8), Apply(record_name=f"skip{number}")
                )
                for number in range(3)
            ),
            nn.LayerNorm(8),
        )

    pairs = [layer for _ in range(6) for layer in (nn.Linear(8, 8), nn.ReLU())]
    flat = [
        layer
        for _ in range(4)
        for layer in (Record(), nn.Linear(8, 8), nn.Tanh(), Apply("concat"), nn.Linear(16, 8))
    ]
    block = ResidualSequential(
        Record(name="around"), stage(), stage(), *pairs, *flat, Apply(record_name="around")
    )
    return block, (torch.zeros(2, 8),)


CASES: dict[str, Callable[[], Case]] = {
    "encoder": encoder,
    "sequence": sequence,
    "mismatched": mismatched,
    "repeated": repeated,
}


@lru_cache
def known(name: str) -> BlockGraph:
    """Look at a case once for all tests: facts cannot be changed."""
    return graph_of(CASES[name](), name)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("width", [60, 80, 160])
@pytest.mark.parametrize("charset", ["unicode", "ascii"])
def test_blocks_are_printed_as_expected(name: str, width: int, charset: str, golden: Golden) -> None:
    text = text_of(known(name), Style(width, ascii=charset == "ascii"))
    golden(f"show_{name}_{charset}_{width}.txt", text)


def test_a_depth_is_printed_as_expected(golden: Golden) -> None:
    inner = ResidualSequential(
        Record(name="in"),
        nn.Linear(8, 8),
        Apply(record_name="in"),
        Apply(record_name="out"),
        blocks.Layer(fft),
    )
    graph = graph_of(
        (ResidualSequential(Record(name="out"), inner, nn.Linear(5, 8)), (torch.zeros(2, 8),)), "deep"
    )
    golden("show_depth.txt", text_of(graph, Style(80), depth=1))


def fft(x: Tensor, weight: Tensor) -> Tensor:
    real: Tensor = torch.fft.rfft(x @ weight).real
    return real


@pytest.mark.parametrize("name", CASES)
def test_eighty_columns_are_enough(name: str) -> None:
    text = text_of(known(name), Style(80))
    assert max(map(len, text.splitlines())) <= 80


def words(text: str) -> Counter[str]:
    """Everything that is said, in whatever order the lines were broken and with whatever signs between."""
    listing = text.partition("\n\nSkips")[0]
    rows = re.findall(r"[^\s│|]+", re.sub(r"\(?\d+, [\d, ]*\)", "", listing))
    return Counter(rows) + Counter(set(re.findall(r"\(?\d+, [\d, ]*\)|[\w.%→]+", text)))


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_cut_in_forty_columns(name: str) -> None:
    graph = known(name)
    narrow, wide = (text_of(graph, Style(width)) for width in (40, 1_000))
    titles = words(
        "\n\nSkips for op and of the between so many memory skip layer params origin share module apply"
    )
    assert words(wide) - words(narrow) - titles == Counter()
    assert len(narrow.splitlines()) > len(wide.splitlines())


@pytest.mark.parametrize("name", CASES)
def test_ascii_is_ascii(name: str) -> None:
    text = text_of(known(name), Style(80, color=True, ascii=True))
    assert text.isascii()


@pytest.mark.parametrize("name", CASES)
def test_colour_changes_nothing_but_the_colour(name: str) -> None:
    graph = known(name)
    colored = text_of(graph, Style(80, color=True))
    plain = text_of(graph, Style(80))
    assert _ESCAPE.sub("", colored) == plain
    assert colored != plain
    assert "\x1b" not in plain


def test_skips_have_colours_of_their_own() -> None:
    text = text_of(graph_of(blocks.crossing(), "crossing"), Style(80, color=True))
    (crossing,) = (line for line in text.splitlines() if "┼" in line)
    colours = re.findall(r"\x1b\[(\d+)m([─┼╮])", crossing)
    assert [mark for _, mark in colours] == ["─", "┼", "─", "╮"]
    own, foreign = colours[0][0], colours[1][0]
    assert own != foreign
    assert [code for code, _ in colours] == [own, foreign, own, own]


def test_several_blocks_are_divided_by_an_empty_line_and_tables_stand_below_their_block() -> None:
    graphs = [graph_of(blocks.plain_skip(), "first"), graph_of(blocks.bare_lstm(), "second")]
    shown = [
        ShownBlock(graph, outline(graph), appendix)
        for graph, appendix in zip(graphs, ("a table\n├─ of the first", ""), strict=True)
    ]
    text = render_show_text(shown, Style(80))
    assert "2.00 KiB    3\n\na table\n├─ of the first\n\nsecond  LSTM from spec.py:second\n" in text
    assert "a table\n|- of the first\n" in render_show_text(shown, Style(ascii=True))
    assert text.endswith("use nn.DataParallel(block, dim=1)\n")


def test_hundreds_of_rows_are_listed_one_by_one() -> None:
    block = ResidualSequential(*(layer for _ in range(300) for layer in (Record(), nn.Identity(), Apply())))
    text = text_of(graph_of((block, (torch.zeros(1),)), "long"), Style(80), fold=False)
    listing = [line for line in text.splitlines() if line.startswith((" ●", " ○", " ◆"))]
    assert len(listing) == 900
    assert listing[-1] == " ◆─╯  899  Apply add ← record_300  (1,)"


def test_equal_outputs_are_counted() -> None:
    block = blocks.Layer(lambda x, _w: (x, [x, x], x[:1]))
    text = text_of(graph_of((block, (torch.zeros(2, 8),)), "states"), Style(80))
    assert "\noutput  (2, 8) float32 × 3, (1, 8) float32\n" in text


def test_a_long_heading_does_not_widen_the_column_of_layers() -> None:
    kinds = (nn.ReLU, nn.Tanh, nn.Sigmoid, nn.SiLU, nn.GELU, nn.ELU, nn.CELU, nn.SELU)
    block = nn.Sequential(*(kind() for _ in range(2) for kind in kinds))
    text = text_of(graph_of((block, (torch.zeros(2, 8),)), "long"), Style(70))
    assert text.splitlines()[4:8] == [
        "    #  layer      output  params  FLOPs",
        " ▾     (ReLU, Tanh, Sigmoid, SiLU, GELU, ELU, 2 more) × 2",
        " ○  0    ReLU     (2, 8)",
        " ○  1    Tanh     (2, 8)",
    ]


def test_deep_nesting_leaves_room_for_the_text() -> None:
    block: nn.Module = nn.Linear(4, 4)
    for _ in range(40):
        block = nn.Sequential(block)
    text = text_of(graph_of((block, (torch.zeros(2, 4),)), "deep"), Style(80))
    assert max(map(len, text.splitlines())) <= 80
    assert " ▾   9           Sequential" in text
    assert f" ○  39  {' ' * 25}Linear 4→4" in text


def test_more_arcs_than_there_is_room_for_are_left_to_the_table() -> None:
    names = [f"r{number}" for number in range(40)]
    block = ResidualSequential(
        *(Record(name=name) for name in names), nn.Linear(4, 4), *(Apply(record_name=name) for name in names)
    )
    graph = graph_of((block, (torch.zeros(2, 4),)), "wide")
    narrow, wide = text_of(graph, Style(80)), text_of(graph, Style(160))
    note = "20 more arcs would take too much room: the longest skips are in the table alone"
    assert note in narrow
    assert "more arc" not in wide
    assert max(map(len, narrow.splitlines())) <= 80
    for number in range(40):
        assert f"  r{number} {number}→{41 + number} " in narrow


def test_an_ascii_stream_gets_names_of_other_letters_as_escapes_in_columns_that_fit() -> None:
    beautiful = type("Schöne", (nn.Linear,), {})
    block = ResidualSequential(
        Record(name="größe"), beautiful(4, 4), Apply(record_name="größe"), Record(name="ü")
    )
    graph = replace(graph_of((block, (torch.zeros(2, 4),)), "straße"), diagnostics=())
    text = text_of(graph, Style(80, ascii=True))
    assert text.isascii()
    lines = text.splitlines()
    assert lines[0] == r"stra\xdfe  ResidualSequential from spec.py:stra\xdfe"
    assert lines[5] == r" *-.  0  Record gr\xf6\xdfe        (2, 4)"
    assert lines[6] == r" o |  1  Sch\xf6ne 4->4            (2, 4)      20     64"
    assert r"  gr\xf6\xdfe 0->2  add" in text
    assert "größe" in text_of(graph, Style(80))


def test_a_remark_about_many_places_names_some() -> None:
    blocks_of = [ResidualSequential(Record(True), nn.Linear(4, 4), Apply()) for _ in range(6)]
    graph = graph_of((nn.Sequential(*blocks_of), (torch.zeros(2, 4),)), "stack")
    places = "note at '0.0', '1.0', '2.0', '3.0' and 2 more (unneeded-projection): the record"
    assert places in " ".join(text_of(graph, Style(80)).split())
    assert text_of(graph, Style(80), fold=False).count("(unneeded-projection)") == 6


def test_of_many_places_that_are_not_counted_some_are_named() -> None:
    layers = [blocks.Layer(lambda x, _w: torch.fft.fft(x).real) for _ in range(8)]
    text = text_of(graph_of((nn.Sequential(*layers), (torch.zeros(2, 8),)), "many"), Style(120))
    assert "FLOPs is a lower bound; not counted is what happens in 0, 1, 2, 3, 4, 3 more\n" in text


def test_the_order_in_memory_is_told_where_it_changes() -> None:
    back = blocks.Layer(lambda x, _w: x.contiguous())
    block = nn.Sequential(nn.Conv2d(8, 8, 3), nn.ReLU(), back, nn.Flatten())
    block = block.to(memory_format=torch.channels_last)  # type: ignore[call-overload] # torch's stubs lack it
    x = torch.zeros(2, 8, 6, 6).to(memory_format=torch.channels_last)
    rows = text_of(graph_of((block, (x,)), "pictures"), Style(100)).splitlines()[5:9]
    assert [row.partition("(")[2].partition("  ")[0] for row in rows] == [
        "2, 8, 4, 4) channels_last",
        "2, 8, 4, 4)",
        "2, 8, 4, 4) contiguous",
        "2, 128)",
    ]
