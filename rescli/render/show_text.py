"""``rescli show``: a block as a listing with its skips beside it, and what they cost below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rescli.render.columns import GAP, Column, lay_out, table
from rescli.render.diagnostic_lines import diagnostic_lines, keep_shapes
from rescli.render.gutter import ASCII, UNICODE, draw_gutter
from rescli.render.style import Style, fixed, wrapped
from rescli.units import format_bytes, format_count, format_flops

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rescli.graph.model import (
        BlockGraph,
        EdgeFact,
        InsertedFact,
        LayerFact,
        Shape,
        WeightFact,
    )
    from rescli.render.gutter import Node, Stroke

_ORIGINS = {
    "option": "from the command line",
    "spec": "from the spec",
    "inferred": "worked out from the layers",
}
_LISTING = (
    Column("#", is_number=True),
    Column("layer", yields=2),
    Column("output", yields=1),
    Column("params", is_number=True),
    Column("FLOPs", is_number=True),
)
# The lines with which torchinfo draws its tree.
_ASCII_TREE = str.maketrans("├│└─", "||'-")


def render_show_text(graphs: Sequence[BlockGraph], style: Style, appendices: Sequence[str] = ()) -> str:
    """Write blocks for a reader.

    Args:
        graphs: The blocks, in order.
        style: How wide, and with which characters and colours.
        appendices: A text to put below each block, as a further table; none if empty.
    """
    below = appendices or ("",) * len(graphs)
    blocks = zip(graphs, below, strict=True)
    return "\n\n".join("\n".join(_block(graph, style, more)) for graph, more in blocks) + "\n"


def _block(graph: BlockGraph, style: Style, appendix: str) -> Iterator[str]:
    yield from _header(graph, style)
    yield ""
    yield from listing(graph, style)
    yield ""
    yield from _summary(graph, style)
    for part in (_skips(graph, style), _inserted(graph, style), _diagnostics(graph, style)):
        if part:
            yield ""
            yield from part
    if appendix:
        yield ""
        yield appendix.translate(_ASCII_TREE) if style.ascii else appendix


def _header(graph: BlockGraph, style: Style) -> Iterator[str]:
    first, *more = wrapped(f"{graph.name}  {graph.type} from {graph.target}", style.width, "  ")
    yield style.paint(graph.name, "bold") + first.removeprefix(graph.name)
    yield from more
    taken = ", ".join(fixed(f"{shape_text(each.shape)} {each.dtype}") for each in graph.inputs) or "none"
    origin = f" {_ORIGINS[graph.inputs[0].origin]}" if graph.inputs else ""
    given = ", ".join(fixed(f"{shape_text(each.shape)} {each.dtype}") for each in graph.outputs)
    if graph.failure is not None:
        given = "none: the block stopped"
    yield from wrapped(f"input   {taken}{origin}", style.width, " " * 8)
    yield from wrapped(f"output  {given or 'no tensor'}", style.width, " " * 8)


def listing(graph: BlockGraph, style: Style) -> Iterator[str]:
    """Write the layers of a block in order of execution, with the skips beside them.

    Args:
        graph: The block.
        style: How wide, and with which characters and colours.
    """
    gutter = draw_gutter(
        [_node(row) for row in graph.layers],
        [(edge.record_index, edge.apply_index) for edge in graph.edges],
        ASCII if style.ascii else UNICODE,
    )
    cells = list(_cells(graph, style))
    layout = lay_out(_LISTING, cells, style.width - gutter.width - 1 - len(GAP))
    margin = " " * (gutter.width + 1 + len(GAP))
    titles = GAP.join(layout.lines([column.title for column in _LISTING])[0])
    yield style.paint((margin + titles).rstrip(), "dim")
    for row, texts, strokes, below in zip(graph.layers, cells, gutter.rows, gutter.below, strict=True):
        for line, parts in enumerate(layout.lines(texts)):
            picture = _picture(below if line else strokes, gutter.width, row, style)
            number, name, *rest = parts
            look = "error" if row.failed else "bold" if row.kind == "block" else None
            shown = [style.paint(number, "dim"), style.paint(name, look) if look else name, *rest]
            yield f" {picture}{GAP}{GAP.join(shown)}".rstrip()


def _picture(strokes: Sequence[Stroke], width: int, row: LayerFact, style: Style) -> str:
    length = sum(len(stroke.text) for stroke in strokes)
    drawn = "".join(
        stroke.text if stroke.net is None else style.paint_net(stroke.text, stroke.net)
        for stroke in strokes[1:]
    )
    mark = style.paint(strokes[0].text, "error") if row.failed else strokes[0].text
    return mark + drawn + " " * (width - length)


def _node(row: LayerFact) -> Node:
    return "failed" if row.failed else row.kind


def _cells(graph: BlockGraph, style: Style) -> Iterator[tuple[str, ...]]:
    outermost = min((row.depth for row in graph.layers), default=0)
    sources = {edge.apply_index: edge for edge in graph.edges}
    dtype = graph.inputs[0].dtype if graph.inputs else None
    for row in graph.layers:
        output = keep_shapes(row.output)
        if row.dtype is not None and row.dtype != dtype:
            output = f"{output} {row.dtype}"
            dtype = row.dtype
        indent = "  " * (row.depth - outermost)
        yield (
            str(row.index),
            indent + row_label(row, sources.get(row.index), style),
            output,
            format_count(row.parameters) if row.parameters else "",
            "" if graph.failure and row.flops is None else _flops_cell(row),
        )


def row_label(row: LayerFact, edge: EdgeFact | None, style: Style) -> str:
    """Name a row of the listing: ``Linear 64→32``, ``Record input``, ``Apply add ← input``.

    Args:
        row: The row.
        edge: For an Apply, the skip that ends there.
        style: With which characters.
    """
    again = " (again)" if row.reused else ""
    if row.kind == "record":
        return f"Record {row.record or ''}".rstrip() + again
    if row.kind == "apply":
        record = edge.record if edge else row.record
        return f"Apply {row.detail}" + (f" {style.left} {record}" if record else "") + again
    key = row.path.rpartition(".")[2]
    name = f" {key}" if row.kind == "block" and key and not key.isdigit() else ""
    return f"{row.type} {style.arrows(row.detail)}".rstrip() + name + again


def _flops_cell(row: LayerFact) -> str:
    if row.flops is None:
        return "?"
    return _short_flops(row.flops) if row.flops else ""


def _short_flops(flops: int) -> str:
    return format_flops(flops).removesuffix("FLOP").rstrip()


def _summary(graph: BlockGraph, style: Style) -> Iterator[str]:
    bound = f"{style.at_least} " if graph.uncounted else ""
    skips = len(graph.edges)
    facts = [
        f"{format_count(graph.parameters)} parameters",
        f"{bound}{format_count(graph.flops)} FLOPs",
        f"{format_count(skips)} skip{'' if skips == 1 else 's'}",
    ]
    if graph.trainable_parameters != graph.parameters:
        facts.insert(1, f"{format_count(graph.trainable_parameters)} trainable")
    if graph.buffers:
        facts.append(f"{format_count(graph.buffers)} buffer elements")
    first, *more = wrapped(", ".join(map(fixed, facts)), style.width)
    yield style.paint(first, "bold")
    yield from (style.paint(line, "bold") for line in more)
    if graph.uncounted and graph.failure is None:
        places = ", ".join(path or "the block itself" for path in graph.uncounted)
        yield from wrapped(
            f"FLOPs is a lower bound; not counted is what happens in {places}", style.width, "  "
        )


def _skips(graph: BlockGraph, style: Style) -> list[str]:
    if not graph.edges:
        return []
    is_scaled = any(not _is_plain(edge.scale) for edge in graph.edges)
    columns = [
        Column("skip", yields=4),
        Column("op", yields=5),
        Column("alpha", yields=2),
        *([Column("scale", yields=3)] if is_scaled else []),
        Column("shape", yields=1),
        Column("span", is_number=True),
        Column("held", is_number=True),
    ]
    rows = []
    for edge in graph.edges:
        scale = [_weight_text(edge.scale)] if is_scaled else []
        rows.append(
            [
                f"{edge.record or ''} {edge.record_index}{style.right}{edge.apply_index}".strip(),
                edge.operation if edge.dim is None else f"{edge.operation} dim {edge.dim}",
                _weight_text(edge.alpha),
                *scale,
                _shapes_text(edge, style),
                format_count(edge.span),
                format_bytes(edge.bytes_held),
            ]
        )
    return [style.paint("Skips", "bold"), *table(columns, rows, style.width, "  ")]


def _is_plain(weight: WeightFact | None) -> bool:
    return weight is None or (weight.value == 1.0 and not weight.learnable and weight.shape is None)


def _weight_text(weight: WeightFact | None) -> str:
    """Write an alpha or scale: ``1``, ``0.3 in [0, 1] learned``, ``tensor (64,) learned``."""
    if weight is None:
        return "-"
    unknown = "?" if weight.shape is None else "several values"
    text = unknown if weight.value is None else f"{weight.value:.4g}"
    if weight.min is not None and weight.max is not None:
        text += f" in {fixed(f'[{weight.min:.4g}, {weight.max:.4g}]')}"
    if weight.shape:
        text += f" {fixed(shape_text(weight.shape))}"
    if weight.space == "log":
        text += " log"
    return f"{text} learned" if weight.learnable else text


def _shapes_text(edge: EdgeFact, style: Style) -> str:
    recorded = fixed(shape_text(edge.recorded_shape))
    if edge.recorded_shape == edge.current_shape:
        return recorded
    return f"{recorded} {style.right} {fixed(shape_text(edge.current_shape))}"


def _inserted(graph: BlockGraph, style: Style) -> list[str]:
    rows = [
        _inserted_row(edge, module, graph.parameters, style)
        for edge in graph.edges
        for module in (edge.projection, edge.gates)
        if module is not None
    ]
    if not rows:
        return []
    columns = (
        Column("at", is_number=True),
        Column("apply"),
        Column("module", yields=1),
        Column("params", is_number=True),
        Column("share", is_number=True),
        Column("FLOPs", is_number=True),
        Column("origin"),
    )
    # The last part of the paths is always the same: said once, the table fits 80 columns.
    title = style.paint("Projections and gates", "bold") + " (APPLY.projection_layer, APPLY.gate_layer)"
    return [title, *table(columns, rows, style.width, "  ")]


def _inserted_row(edge: EdgeFact, module: InsertedFact, total: int, style: Style) -> tuple[str, ...]:
    detail = style.arrows(module.detail)
    # Of a container the parts say more than its class.
    what = detail if module.parts and detail else f"{module.type} {detail}".rstrip()
    return (
        str(edge.apply_index),
        edge.apply_path,
        what,
        format_count(module.parameters),
        f"{100 * module.parameters / total:.1f}%" if total else "",
        "?" if module.flops is None else _short_flops(module.flops),
        module.origin,
    )


def _diagnostics(graph: BlockGraph, style: Style) -> list[str]:
    return [line for each in graph.diagnostics for line in diagnostic_lines(each, style)]


def shape_text(shape: Shape) -> str:
    """Write a shape as ``(8, 64)``.

    Args:
        shape: The sizes.
    """
    return str(shape)
