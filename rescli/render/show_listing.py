"""The layers of a block in order of execution, with the skips as arcs beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rescli.render.columns import GAP, Column, lay_out
from rescli.render.diagnostic_lines import keep_shapes
from rescli.render.gutter import ASCII, UNICODE, draw_gutter
from rescli.render.style import wrapped
from rescli.units import format_count, format_flops

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rescli.graph.model import BlockGraph, LayerFact
    from rescli.graph.outline.model import Inside, Line, Outline
    from rescli.render.columns import Layout
    from rescli.render.gutter import Gutter, Node, Stroke
    from rescli.render.style import Style

_COLUMNS = (
    Column("#", is_number=True),
    Column("layer", yields=2),
    Column("output", yields=1),
    Column("params", is_number=True),
    Column("FLOPs", is_number=True),
)
# Where these do not fit, the output stands right behind the layer, and below it if need be; only a new one is written.
_NARROW_COLUMNS = (_COLUMNS[0], Column("layer, new output", yields=1), *_COLUMNS[3:])
# Arcs side by side may take this part of the width, but a few are always drawn.
_LANES_PART = 4
_LEAST_LANES = 10
# A heading names so many of the classes that repeat together.
_NAMED_TYPES = 6


def listing(graph: BlockGraph, outline: Outline, style: Style) -> Iterator[str]:
    """Write the lines of a listing.

    Args:
        graph: The block.
        outline: What is shown of it.
        style: How wide, and with which characters and colours.
    """
    arcs = [skip.arc for skip in outline.skips if skip.arc is not None]
    nodes = [_node(line) for line in outline.lines]
    most_lanes = max(style.width // _LANES_PART, _LEAST_LANES)
    gutter = draw_gutter(nodes, arcs, ASCII if style.ascii else UNICODE, most_lanes)
    room = style.width - gutter.width - 1 - len(GAP)
    indents = _indents(outline.lines, room // 3)
    cells = [tuple(map(style.shown, texts)) for texts in _cells(graph, outline.lines, indents, style)]
    layout = lay_out(_COLUMNS, _of_rows(cells), room)
    if layout.width > room:
        cells = list(_merged(cells))
        layout = lay_out(_NARROW_COLUMNS, _of_rows(cells), room)
    margin = " " * (gutter.width + 1 + len(GAP))
    titles = GAP.join(layout.lines([column.title for column in layout.columns])[0])
    yield style.paint((margin + titles).rstrip(), "dim")
    for line, texts, strokes, below in zip(outline.lines, cells, gutter.rows, gutter.below, strict=True):
        is_failed = line.row is not None and line.row.failed
        is_block = line.row is None or line.row.kind == "block"
        look = "error" if is_failed else "bold" if is_block else None
        parts = layout.lines(texts) if line.row else _heading_lines(texts, layout, room)
        for part, (number, name, *rest) in enumerate(parts):
            picture = _picture(below if part else strokes, gutter.width, style, is_failed=is_failed)
            label = name.rstrip()
            # Outside of the colour, so that a line still ends where its text does.
            padding = name[len(label) :]
            shown = [
                style.paint(number, "dim"),
                (style.paint(label, look) if look else label) + padding,
                *rest,
            ]
            yield f" {picture}{GAP}{GAP.join(shown)}".rstrip()
    for note in _notes(outline, gutter, style):
        yield from (style.paint(line, "dim") for line in wrapped(note, style.width, "  "))


def _notes(outline: Outline, gutter: Gutter, style: Style) -> Iterator[str]:
    if outline.is_folded:
        yield f"{style.times} N: this row and what stands below it come N times; their figures are of one"
    if gutter.left_out:
        arcs = f"{format_count(gutter.left_out)} more {'arc' if gutter.left_out == 1 else 'arcs'}"
        yield f"{arcs} would take too much room: the longest skips are in the table alone"


def _of_rows(cells: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Leave out the headings: they have no figures, and may be as long as a line."""
    return [texts for texts in cells if len(texts) > 1]


def _heading_lines(texts: Sequence[str], layout: Layout, room: int) -> Iterator[list[str]]:
    text, number = texts[0], " " * layout.widths[0]
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    for line in wrapped(text, room - len(number) - len(GAP), indent):
        yield [number, line]


def _picture(strokes: Sequence[Stroke], width: int, style: Style, *, is_failed: bool) -> str:
    length = sum(len(stroke.text) for stroke in strokes)
    drawn = "".join(
        stroke.text if stroke.net is None else style.paint_net(stroke.text, stroke.net)
        for stroke in strokes[1:]
    )
    mark = style.paint(strokes[0].text, "error") if is_failed else strokes[0].text
    return mark + drawn + " " * (width - length)


def _node(line: Line) -> Node:
    row = line.row
    if row is None:
        return "block"
    if row.failed:
        return "failed"
    # The detail of an Apply is its operation.
    return _OPERATIONS.get(row.detail, "add") if row.kind == "apply" else row.kind


_OPERATIONS: dict[str, Node] = {
    "add": "add",
    "concat": "concat",
    "multiply": "multiply",
    "gated": "gated",
    "highway": "highway",
}


def _indents(lines: Sequence[Line], most: int) -> list[str]:
    """Indent by two columns a level; by one, and at last no further, where nesting would take the room of the text."""
    deepest = max((line.level for line in lines), default=0)
    step = 2 if 2 * deepest <= most else 1
    return [" " * min(step * line.level, max(most, 0)) for line in lines]


def _cells(
    graph: BlockGraph, lines: Sequence[Line], indents: Sequence[str], style: Style
) -> Iterator[tuple[str, ...]]:
    """Give the texts of each line: one for each column, or of a heading that one."""
    dtype = graph.inputs[0].dtype if graph.inputs else None
    memory_format = "contiguous"
    for line, indent in zip(lines, indents, strict=True):
        row = line.row
        if row is None:
            yield (indent + _heading(line, style),)
            continue
        output = keep_shapes(row.output)
        if row.dtype is not None and row.dtype != dtype:
            output = f"{output} {row.dtype}"
            dtype = row.dtype
        if row.memory_format not in {None, "strided", memory_format} and len(row.output_shape or ()) > 3:
            # Of pictures and volumes alone: elsewhere there is one order.
            memory_format = row.memory_format
            output = f"{output} {memory_format}"
        yield (
            str(row.index),
            indent + _label(line, row, style),
            output,
            format_count(row.parameters) if row.parameters else "",
            "" if graph.failure and row.flops is None else _flops_cell(line, row, style),
        )


def _merged(cells: Iterable[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    """Put layer and output into one column; an output that is the same as in the row above is left out."""
    before = ""
    for texts in cells:
        if len(texts) == 1:
            yield texts
            continue
        number, name, output, *rest = texts
        yield number, f"{name} {output}" if output not in {"", before} else name, *rest
        before = output or before


def _heading(line: Line, style: Style) -> str:
    types = line.types if len(line.types) <= _NAMED_TYPES + 1 else line.types[:_NAMED_TYPES]
    rest = len(line.types) - len(types)
    return f"({', '.join([*types, f'{rest} more'] if rest else types)}) {style.times} {line.repeats}"


def _label(line: Line, row: LayerFact, style: Style) -> str:
    """Name a row: ``Linear 64→32``, ``Record input``, ``Apply add ← input``, ``Block × 12 (3 rows inside)``."""
    parts = [_name(row, style)]
    parts += ["(again)"] if row.reused else []
    parts += [f"{style.times} {line.repeats}"] if line.repeats > 1 else []
    parts += [f"({_inside_text(line.inside)})"] if line.inside else []
    return " ".join(parts)


def _name(row: LayerFact, style: Style) -> str:
    if row.kind == "record":
        return f"Record {row.record or ''}".rstrip()
    if row.kind == "apply":
        return f"Apply {row.detail}" + (f" {style.left} {row.record}" if row.record else "")
    key = row.path.rpartition(".")[2]
    name = f" {key}" if row.kind == "block" and key and not key.isdigit() else ""
    return f"{row.type} {style.arrows(row.detail)}".rstrip() + name


def _inside_text(inside: Inside) -> str:
    rows = f"{format_count(inside.rows)} row{'' if inside.rows == 1 else 's'}"
    skips = f", {format_count(inside.skips)} skip{'' if inside.skips == 1 else 's'}" if inside.skips else ""
    crossing = f", {format_count(inside.crossing)} across its border" if inside.crossing else ""
    return f"{rows}{skips} inside{crossing}"


def _flops_cell(line: Line, row: LayerFact, style: Style) -> str:
    if row.flops is None:
        return "?"
    bound = style.at_least if line.is_lower_bound else ""
    return f"{bound}{short_flops(row.flops)}" if row.flops else ""


def short_flops(flops: int) -> str:
    """Write a number of operations without its unit, which the title of the column has.

    Args:
        flops: How many.
    """
    return format_flops(flops).removesuffix("FLOP").rstrip()
