"""``rescli show``: a block as a listing with its skips beside it, and what they cost below."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from rescli.render.diagnostic_lines import diagnostic_lines
from rescli.render.show_listing import listing
from rescli.render.show_tables import inserted_table, shape_text, skip_table
from rescli.render.style import fixed, wrapped
from rescli.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rescli.graph.model import BlockGraph, InputFact, TensorFact
    from rescli.graph.outline.model import Outline, ShownBlock
    from rescli.render.style import Style

_ORIGINS = {
    "option": "from the command line",
    "spec": "from the spec",
    "inferred": "worked out from the layers",
}
# Of the places where operations are not counted so many are named; JSON has all.
_NAMED_PLACES = 5
# The lines with which torchinfo draws its tree.
_ASCII_TREE = str.maketrans("├│└─", "||'-")


def render_show_text(blocks: Sequence[ShownBlock], style: Style) -> str:
    """Write blocks for a reader.

    Args:
        blocks: The blocks, in order, and what is shown of each.
        style: How wide, and with which characters and colours.
    """
    return "\n\n".join("\n".join(_block(block, style)) for block in blocks) + "\n"


def _block(block: ShownBlock, style: Style) -> Iterator[str]:
    graph, outline = block.graph, block.outline
    yield from _header(graph, style)
    yield ""
    yield from listing(graph, outline, style)
    yield ""
    yield from _summary(graph, outline, style)
    diagnostics = [
        line
        for remark in outline.remarks
        for line in diagnostic_lines(remark.diagnostic, style, remark.more_paths)
    ]
    for part in (skip_table(outline, style), inserted_table(graph, outline, style), diagnostics):
        if part:
            yield ""
            yield from part
    if block.appendix:
        yield ""
        text = block.appendix.translate(_ASCII_TREE) if style.ascii else block.appendix
        yield from map(style.shown, text.splitlines())


def _header(graph: BlockGraph, style: Style) -> Iterator[str]:
    name = style.shown(graph.name)
    source = f" from {graph.target}" if graph.target else ""
    first, *more = wrapped(f"{name}  {style.shown(graph.type + source)}", style.width, "  ")
    yield style.paint(name, "bold") + first.removeprefix(name)
    yield from more
    taken = _tensors_text(graph.inputs, style) or "none"
    origin = f" {_origin(graph)}" if graph.inputs else ""
    given = _tensors_text(graph.outputs, style) or "no tensor"
    if graph.failure is not None:
        given = "none: the block stopped"
    yield from wrapped(f"input   {taken}{origin}", style.width, " " * 8)
    yield from wrapped(f"output  {given}", style.width, " " * 8)


def _origin(graph: BlockGraph) -> str:
    origin = graph.inputs[0].origin
    # What Python hands over comes from no target.
    return "as given" if origin == "option" and not graph.target else _ORIGINS[origin]


def _tensors_text(tensors: Sequence[InputFact | TensorFact], style: Style) -> str:
    """Write tensors one after the other, equal neighbours once: a model may give its state after each layer."""
    texts = (f"{shape_text(tensor.shape)} {tensor.dtype}" for tensor in tensors)
    counted = ((text, len(list(group))) for text, group in groupby(texts))
    return ", ".join(
        fixed(text if times == 1 else f"{text} {style.times} {times}") for text, times in counted
    )


def _summary(graph: BlockGraph, outline: Outline, style: Style) -> Iterator[str]:
    bound = f"{style.at_least} " if graph.uncounted else ""
    facts = [
        f"{format_count(graph.parameters)} parameters",
        f"{bound}{format_count(graph.flops)} FLOPs",
        _skips_text(graph),
    ]
    if graph.trainable_parameters != graph.parameters:
        facts.insert(1, f"{format_count(graph.trainable_parameters)} trainable")
    if graph.buffers:
        facts.append(f"{format_count(graph.buffers)} buffer elements")
    for line in wrapped(", ".join(map(fixed, facts)), style.width):
        yield style.paint(line, "bold")
    if graph.uncounted and graph.failure is None:
        named = [path or "the block itself" for path in graph.uncounted[:_NAMED_PLACES]]
        rest = len(graph.uncounted) - len(named)
        places = ", ".join([*named, f"{format_count(rest)} more"] if rest else named)
        text = f"FLOPs is a lower bound; not counted is what happens in {style.shown(places)}"
        yield from wrapped(text, style.width, "  ")
    if outline.hidden_skips:
        lie = "lies inside a row" if outline.hidden_skips == 1 else "lie inside rows"
        text = f"{format_count(outline.hidden_skips)} of the skips {lie} with deeper levels summed up: not listed"
        yield from wrapped(text, style.width, "  ")


def _skips_text(graph: BlockGraph) -> str:
    skips = _counted(len(graph.edges), "skip")
    if not graph.edges:
        return skips
    return f"{skips} holding {'up to ' if len(graph.edges) > 1 else ''}{format_bytes(graph.peak_bytes_held)}"


def _counted(number: int, thing: str) -> str:
    return f"{format_count(number)} {thing}{'' if number == 1 else 's'}"
