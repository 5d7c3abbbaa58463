"""Skips that do less than they seem to, stretch a tensor, or cost more than what they lead around."""

from __future__ import annotations

from collections import defaultdict
from itertools import accumulate
from typing import TYPE_CHECKING

from rescli.graph.diagnostics.rule import Finding, record_text
from rescli.units import format_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rescli.graph.diagnostics.evidence import Evidence
    from rescli.graph.model import EdgeFact, LayerFact

# What an operation gives of x if both of its tensors are x.
_OF_ONE_TENSOR = {
    "add": "a multiple of what came in",
    "concat": "the same features twice",
    "multiply": "x * (1 + alpha * x)",
    "gated": "what came in",
    "highway": "both gates of one tensor",
}


def identity_skip(evidence: Evidence) -> Iterator[Finding]:
    """Find skips around nothing: the Apply combines a tensor with itself."""
    for edge in evidence.edges:
        if edge.apply_index not in evidence.unchanged or edge.projection is not None:
            continue
        between = range(edge.record_index + 1, edge.apply_index)
        if all(_does_nothing(evidence, evidence.layers[index]) for index in between):
            yield Finding(
                edge.apply_path,
                f"nothing stands between {record_text(edge.record)} at {edge.record_path!r} and this Apply: "
                f"{edge.operation} gives {_OF_ONE_TENSOR[edge.operation]}",
                "put the layers of the branch between them, or take both out",
            )


def _does_nothing(evidence: Evidence, row: LayerFact) -> bool:
    traits = evidence.traits_of(row)
    return row.kind == "record" or traits.is_container or (traits.passes_on and not traits.drops)


def broadcasting_skip(evidence: Evidence) -> Iterator[Finding]:
    """Find recorded tensors that are stretched to the current shape."""
    for edge in evidence.edges:
        if edge.operation == "concat" or edge.projection is not None:
            continue
        if edge.recorded_shape != edge.current_shape:
            yield Finding(
                edge.apply_path,
                f"{record_text(edge.record)} of shape {edge.recorded_shape} is stretched to "
                f"{edge.current_shape} by broadcasting",
                "set need_projection=True in the Record, or make the sizes equal; where it is meant, let a "
                "layer in front of the Record expand the tensor",
            )


def oversized_projection(evidence: Evidence) -> Iterator[Finding]:
    """Find projections with more parameters than all layers that the skip leads around."""
    # So that a long block is summed up once, not once a skip.
    parameters = list(accumulate((row.parameters for row in evidence.layers), initial=0))
    repeats = list(accumulate((row.reused for row in evidence.layers), initial=0))
    for edge in evidence.edges:
        start, end = edge.record_index + 1, edge.apply_index
        # The rows of a repeated layer do not show its parameters.
        if edge.projection is None or not edge.span or repeats[end + 1] > repeats[start]:
            continue
        spanned = parameters[end] - parameters[start]
        if edge.projection.parameters > spanned:
            yield Finding(
                edge.apply_path,
                f"the projection has {format_count(edge.projection.parameters)} parameters, "
                f"{_beside(edge.span)} {format_count(spanned) if spanned else 'none'}",
                "let the skip end with the sizes it begins with, or give a cheaper projection=",
            )


def _beside(span: int) -> str:
    return "the layer beside it has" if span == 1 else f"the {format_count(span)} layers beside it have"


def unneeded_projection(evidence: Evidence) -> Iterator[Finding]:
    """Find Records that allow a projection which none of their skips needs."""
    if evidence.failure is not None:
        return
    skips: dict[str, list[EdgeFact]] = defaultdict(list)
    for edge in evidence.edges:
        skips[edge.record_path].append(edge)
    for place in evidence.placements:
        if not place.need_projection or place.path not in skips:
            continue
        bridges = [edge.projection for edge in skips[place.path]]
        if all(bridge is None or bridge.origin == "given" for bridge in bridges):
            reason = "the skip has a projection of its own" if any(bridges) else "the sizes are the same"
            yield Finding(
                place.path,
                f"{record_text(place.name)} has need_projection=True and no skip needs it: {reason}",
                "leave it out, unless other widths are to come; it costs nothing",
            )
