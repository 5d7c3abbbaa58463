"""The skips of a block as a table, and what they brought with them: projections and gates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rescli.render.columns import Column, columns_of, table
from rescli.render.show_listing import short_flops
from rescli.render.style import fixed, wrapped
from rescli.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rescli.graph.model import BlockGraph, EdgeFact, InsertedFact, Shape, WeightFact
    from rescli.graph.outline.model import Outline, Skip
    from rescli.render.style import Style

_SIZED = {"construction": "built", "first-run": "first run"}


def skip_table(outline: Outline, style: Style) -> list[str]:
    """Write a table of the skips; nothing where there are none.

    Args:
        outline: What is shown of the block.
        style: How wide, and with which characters and colours.
    """
    if not outline.skips:
        return []
    edges = [skip.edge for skip in outline.skips]
    is_scaled = any(not _is_plain(edge.scale) for edge in edges)
    columns = [
        Column("skip", yields=4),
        Column("op", yields=5),
        Column("alpha", yields=2),
        *([Column("scale", yields=3)] if is_scaled else []),
        Column("shape", yields=1),
        Column("span", is_number=True),
        Column("FLOPs", is_number=True),
        Column("held", is_number=True),
        Column("for", is_number=True),
    ]
    rows = []
    for skip in outline.skips:
        edge = skip.edge
        scale = [_weight_text(edge.scale)] if is_scaled else []
        rows.append(
            [
                _skip_name(skip, style),
                _operation(edge),
                _weight_text(edge.alpha),
                *scale,
                _shapes_text(edge, style),
                format_count(edge.span),
                "?" if edge.span_flops is None else short_flops(edge.span_flops),
                format_bytes(edge.bytes_held),
                format_count(edge.held_layers),
            ]
        )
    lines = table(columns, [[style.shown(cell) for cell in row] for row in rows], style.width, "  ")
    if not _fits(lines, style):
        texts = (_skip_text(skip, style, is_scaled=is_scaled) for skip in outline.skips)
        return [*_title("Skips", "", style), *_one_by_one(texts, style)]
    about = " (span and FLOPs of the layers between; memory held, for so many layers)"
    return [*_title("Skips", about, style), *lines]


def _skip_text(skip: Skip, style: Style, *, is_scaled: bool) -> str:
    """Say of a skip in a sentence what its row of the table would have."""
    edge = skip.edge
    flops = "?" if edge.span_flops is None else short_flops(edge.span_flops)
    facts = [
        _operation(edge),
        *([] if edge.alpha is None else [f"alpha {_weight_text(edge.alpha)}"]),
        *([f"scale {_weight_text(edge.scale)}"] if is_scaled else []),
        f"shape {_shapes_text(edge, style)}",
        fixed(f"span {_layers(edge.span)}"),
        fixed(f"{flops} FLOPs"),
        fixed(f"held {format_bytes(edge.bytes_held)} for {_layers(edge.held_layers)}"),
    ]
    return style.shown(f"{_skip_name(skip, style)}: {', '.join(facts)}")


def _operation(edge: EdgeFact) -> str:
    return edge.operation if edge.dim is None else f"{edge.operation} dim {edge.dim}"


def _layers(number: int) -> str:
    return f"{format_count(number)} layer{'' if number == 1 else 's'}"


def _fits(lines: Iterable[str], style: Style) -> bool:
    return max(map(columns_of, lines)) <= style.width


def _one_by_one(texts: Iterable[str], style: Style) -> Iterator[str]:
    """Write what is too wide for a table as sentences."""
    for text in texts:
        yield from wrapped(f"  {text}", style.width, "    ")


def _title(name: str, about: str, style: Style) -> list[str]:
    first, *more = wrapped(name + about, style.width, "  ")
    return [style.paint(name, "bold") + first.removeprefix(name), *more]


def _skip_name(skip: Skip, style: Style) -> str:
    edge = skip.edge
    rows = f"{edge.record_index}{style.right}{edge.apply_index}"
    times = fixed(f"{style.times} {skip.repeats}") if skip.repeats > 1 else ""
    return " ".join(part for part in (edge.record, rows, times) if part)


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
    if weight.learnable:
        text += " learned"
    return f"{text} saturated" if weight.is_saturated else text


def _shapes_text(edge: EdgeFact, style: Style) -> str:
    recorded = fixed(shape_text(edge.recorded_shape))
    if edge.recorded_shape == edge.current_shape:
        return recorded
    # Where the line must be broken, the arrow begins the second one.
    return f"{recorded} {fixed(f'{style.right} {shape_text(edge.current_shape)}')}"


def inserted_table(graph: BlockGraph, outline: Outline, style: Style) -> list[str]:
    """Write a table of the projections and gates; nothing where there are none.

    Args:
        graph: The block.
        outline: What is shown of it.
        style: How wide, and with which characters and colours.
    """
    rows = [
        _inserted_row(skip, module, graph.parameters, style)
        for skip in outline.skips
        for module in (skip.edge.projection, skip.edge.gates)
        if module is not None
    ]
    if not rows:
        return []
    columns = (
        Column("apply", yields=2),
        Column("module", yields=1),
        Column("params", is_number=True),
        Column("share", is_number=True),
        Column("FLOPs", is_number=True),
        Column("origin"),
        Column("sized"),
        Column("layout"),
    )
    # The last part of the paths is always the same: said once, the table fits 80 columns.
    about = " (APPLY.projection_layer, APPLY.gate_layer)"
    rows = [[style.shown(cell) for cell in row] for row in rows]
    lines = list(table(columns, rows, style.width, "  "))
    if not _fits(lines, style):
        lines = list(_one_by_one(map(_inserted_text, rows), style))
    return [*_title("Projections and gates", about, style), *lines]


def _inserted_text(row: Sequence[str]) -> str:
    """Say of a projection or gate in a sentence what its row of the table has."""
    apply, module, parameters, share, flops, origin, sized, layout = row
    facts = [
        module,
        fixed(f"{parameters} parameters") + (fixed(f" ({share})") if share else ""),
        fixed(f"{flops} FLOPs"),
        origin,
        fixed(f"sized {sized}"),
        fixed(f"layout {layout}"),
    ]
    return f"{apply}: {', '.join(facts)}"


def _inserted_row(skip: Skip, module: InsertedFact, total: int, style: Style) -> Sequence[str]:
    edge, detail = skip.edge, style.arrows(module.detail)
    # Of a container the parts say more than its class.
    what = detail if module.parts and detail else f"{module.type} {detail}".rstrip()
    times = f" {style.times} {skip.repeats}" if skip.repeats > 1 else ""
    return (
        f"{edge.apply_index} {edge.apply_path}"
        if edge.apply_path != str(edge.apply_index)
        else edge.apply_path,
        what + times,
        format_count(module.parameters),
        f"{100 * module.parameters / total:.1f}%" if total else "",
        "?" if module.flops is None else short_flops(module.flops),
        module.origin,
        _SIZED[module.sized],
        module.layout or "-",
    )


def shape_text(shape: Shape) -> str:
    """Write a shape as ``(8, 64)``.

    Args:
        shape: The sizes.
    """
    return str(shape)
