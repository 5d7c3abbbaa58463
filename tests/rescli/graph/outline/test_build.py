from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from rescli.graph.model import BlockGraph
from rescli.graph.outline.build import outline
from rescli.graph.outline.model import Inside, Outline
from rescli.graph.trace import trace
from tests.rescli.graph import blocks
from tests.rescli.graph.listings import listing, texts
from tests.rescli.graph.outline.test_depth import edges_of
from torchresidual import Apply, LearnableAlpha, Record, ResidualSequential


def look(module: nn.Module, *inputs: torch.Tensor) -> BlockGraph:
    return trace(module, inputs, name="block", target="a.py:block", origin="spec")


def written(shown: Outline) -> list[str]:
    """Write each line with its indent, and how often it comes."""
    return [
        "  " * line.level
        + (line.row.type if line.row else f"({' '.join(line.types)})")
        + (f" x{line.repeats}" if line.repeats > 1 else "")
        for line in shown.lines
    ]


def test_equal_blocks_are_one_with_their_skips() -> None:
    with torch.device("meta"):
        deep = nn.Sequential(
            *(ResidualSequential(Record(), nn.Linear(8192, 8192), Apply()) for _ in range(48))
        )
        graph = look(deep, torch.empty(4, 8192))
    shown = outline(graph)
    assert written(shown) == ["ResidualSequential x48", "  Record", "  Linear", "  Apply"]
    assert [(skip.arc, skip.repeats) for skip in shown.skips] == [((1, 3), 48)]
    assert shown.is_folded
    plain = outline(graph, fold=False)
    assert (len(plain.lines), len(plain.skips), plain.is_folded) == (192, 48, False)


def test_a_group_of_several_layers_has_a_heading() -> None:
    block = nn.Sequential(
        nn.Linear(4, 4), *(layer for _ in range(6) for layer in (nn.Linear(4, 4), nn.ReLU())), nn.Linear(4, 2)
    )
    shown = outline(look(block, torch.zeros(2, 4)))
    assert written(shown) == ["Linear", "(Linear ReLU) x6", "  Linear", "  ReLU", "Linear"]
    assert [line.row.index for line in shown.lines if line.row] == [0, 1, 2, 13]


def test_arcs_lead_from_line_to_line_behind_a_heading() -> None:
    layers = [each for _ in range(3) for each in (Record(), nn.Linear(4, 4), nn.ReLU(), Apply())]
    shown = outline(
        look(ResidualSequential(Record(name="a"), *layers, Apply(record_name="a")), torch.zeros(2, 4))
    )
    assert written(shown) == [
        "Record",
        "(Record Linear ReLU Apply) x3",
        "  Record",
        "  Linear",
        "  ReLU",
        "  Apply",
        "Apply",
    ]
    assert [(skip.arc, skip.repeats) for skip in shown.skips] == [((2, 5), 3), ((0, 6), 1)]


def test_blocks_in_blocks_are_folded_at_every_level() -> None:
    def stage() -> nn.Module:
        return nn.Sequential(
            *(ResidualSequential(Record(), nn.Linear(4, 4), nn.Linear(4, 4), Apply()) for _ in range(3)),
            nn.ReLU(),
        )

    shown = outline(look(nn.Sequential(stage(), stage()), torch.zeros(2, 4)))
    assert written(shown) == [
        "Sequential x2",
        "  ResidualSequential x3",
        "    Record",
        "    Linear x2",
        "    Apply",
        "  ReLU",
    ]
    assert [(skip.arc, skip.repeats) for skip in shown.skips] == [((2, 4), 6)]


@pytest.mark.parametrize(
    "second",
    [
        lambda: Apply("gated", alpha=0.5),
        lambda: Apply("add", alpha=0.25),
        lambda: Apply("add", alpha=LearnableAlpha(0.5)),
        lambda: Apply("add", alpha=0.5, scale=2.0),
        lambda: Apply("add", alpha=0.5, projection=nn.Identity()),
    ],
)
def test_skips_with_other_operations_weights_or_projections_are_not_folded(second: type) -> None:
    def block(apply: Apply) -> nn.Module:
        return ResidualSequential(Record(name="r"), nn.Linear(4, 4), apply)

    def lines(other: Apply) -> int:
        both = nn.Sequential(block(Apply("add", alpha=0.5)), block(other))
        return len(outline(look(both, torch.zeros(2, 4))).lines)

    assert lines(second()) == 8
    assert lines(Apply("add", alpha=0.5)) == 4


def test_names_with_a_number_in_them_do_not_keep_blocks_apart() -> None:
    def block(name: str) -> nn.Module:
        return ResidualSequential(Record(name=name), nn.Linear(4, 4), Apply(record_name=name))

    x = torch.zeros(2, 4)
    assert len(outline(look(nn.Sequential(block("skip0"), block("skip1")), x)).lines) == 4
    assert len(outline(look(nn.Sequential(block("first"), block("second")), x)).lines) == 8


def test_a_layer_placed_several_times_is_shown_once_and_once_more() -> None:
    layer = nn.Linear(4, 4)
    shown = outline(look(nn.Sequential(*[layer] * 5), torch.zeros(2, 4)))
    assert [(line.row.reused, line.repeats) for line in shown.lines if line.row] == [(False, 1), (True, 4)]


def test_a_depth_sums_up_and_counts_skips() -> None:
    module, inputs = blocks.nested()
    shown = outline(look(module, *inputs), depth=1)
    assert written(shown) == ["Record", "ResidualSequential", "Linear", "Apply"]
    assert shown.lines[1].inside == Inside(rows=3, skips=1)
    assert [(skip.edge.record, skip.arc) for skip in shown.skips] == [("a", (0, 3))]
    assert shown.hidden_skips == 1


def test_a_skip_across_the_border_of_what_is_summed_up_is_listed_and_not_drawn() -> None:
    inner = ResidualSequential(nn.Linear(4, 4), Apply(record_name="a"))
    shown = outline(look(ResidualSequential(Record(name="a"), inner), torch.zeros(2, 4)), depth=1)
    assert shown.lines[1].inside == Inside(rows=2, crossing=1)
    assert [(skip.edge.apply_path, skip.arc) for skip in shown.skips] == [("1.1", None)]
    assert shown.hidden_skips == 0


def test_what_is_summed_up_is_folded_too() -> None:
    blocks_of = [nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(3)]
    shown = outline(look(nn.Sequential(*blocks_of), torch.zeros(2, 4)), depth=1)
    assert written(shown) == ["Sequential x3"]
    assert shown.lines[0].inside == Inside(rows=2)


def test_of_nothing_there_are_no_lines() -> None:
    shown = outline(graph_of("", 0, 0))
    assert (shown.lines, shown.skips, shown.hidden_skips) == ((), (), 0)


def graph_of(text: str, parameters: int, flops: int) -> BlockGraph:
    return BlockGraph(
        name="block",
        target="a.py:block",
        type="Sequential",
        inputs=(),
        outputs=(),
        parameters=parameters,
        trainable_parameters=parameters,
        buffers=0,
        flops=flops,
        uncounted=(),
        peak_bytes_held=0,
        layers=tuple(listing(text)),
        edges=tuple(edges_of(text)),
        diagnostics=(),
    )


@given(texts(), st.one_of(st.none(), st.integers(1, 3)))
def test_lines_times_their_repeats_sum_to_the_total(text: str, depth: int | None) -> None:
    graph = graph_of(text, 0, 0)
    shown = outline(graph, depth=depth)
    around: list[tuple[int, int]] = []
    parameters = flops = rows = 0
    for line in shown.lines:
        while around and around[-1][0] >= line.level:
            around.pop()
        times = (around[-1][1] if around else 1) * line.repeats
        around.append((line.level, times))
        if line.row is not None:
            parameters += times * line.row.parameters
            flops += times * (line.row.flops or 0)
            rows += times * (1 + (line.inside.rows if line.inside else 0))
    assert rows == len(graph.layers)
    assert parameters == sum(row.parameters for row in graph.layers)
    assert flops == sum(row.flops or 0 for row in graph.layers)
    assert sum(skip.repeats for skip in shown.skips) + shown.hidden_skips == len(graph.edges)
    arcs = Counter(skip.arc for skip in shown.skips if skip.arc)
    assert set(arcs.values()) <= {1}
    for first, last in arcs:
        ends = shown.lines[first].row, shown.lines[last].row
        assert [row.kind for row in ends if row] == ["record", "apply"]


def test_what_is_said_of_several_places_is_said_once() -> None:
    def block() -> nn.Module:
        return ResidualSequential(Record(True), nn.Linear(4, 4), Apply())

    graph = look(nn.Sequential(*(block() for _ in range(6))), torch.zeros(2, 4))
    assert len(graph.diagnostics) == 6
    (remark,) = outline(graph).remarks
    assert (remark.diagnostic.path, remark.more_paths) == ("0.0", ("1.0", "2.0", "3.0", "4.0", "5.0"))
    every = outline(graph, fold=False).remarks
    assert [(one.diagnostic, one.more_paths) for one in every] == [(each, ()) for each in graph.diagnostics]
