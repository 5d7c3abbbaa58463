"""Layers that stand in the wrong place: in place behind a Record, dropping behind an Apply, batch in dimension 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rescli.graph.diagnostics.rule import Finding, counted, record_text
from rescli.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rescli.graph.diagnostics.evidence import Evidence
    from rescli.graph.model import LayerFact


def in_place_after_record(evidence: Evidence) -> Iterator[Finding]:
    """Find layers that would write into a recorded tensor, and so get a copy of it at each call."""
    found: set[int] = set()
    for edge in evidence.edges:
        row = _first_at_work(evidence, range(edge.record_index + 1, edge.apply_index))
        if row is None or row.index in found or not evidence.traits_of(row).writes_in_place:
            continue
        found.add(row.index)
        yield Finding(
            row.path,
            f"{row.type} works in place on what {record_text(edge.record)} keeps: it gets a copy of the "
            f"{format_bytes(edge.bytes_held)} at each call",
            "inplace=False makes the new tensor without copying first",
        )


def dropout_after_apply(evidence: Evidence) -> Iterator[Finding]:
    """Find layers that drop parts of what an Apply has just put together, the skip included."""
    found: set[int] = set()
    for edge in evidence.edges:
        # Behind a concat, dropping features of both sides is what it is for.
        if edge.operation == "concat":
            continue
        row = _first_at_work(evidence, range(edge.apply_index + 1, len(evidence.layers)), past_records=False)
        if row is None or row.index in found or not evidence.traits_of(row).drops:
            continue
        found.add(row.index)
        yield Finding(
            row.path,
            f"{row.type} drops parts of what the Apply at {edge.apply_path!r} gave: of the skip, not only of "
            "the branch",
            "put it in front of the Apply, so that what was recorded always comes through",
        )


def batch_second(evidence: Evidence) -> Iterator[Finding]:
    """Find recurrent and attention layers whose input has the batch in dimension 1."""
    rows = [row for row in evidence.layers if evidence.traits_of(row).is_batch_second]
    if not rows:
        return
    paths = list(dict.fromkeys(row.path for row in rows))
    more = f", as {counted(len(paths) - 1, 'more layer')} here" if len(paths) > 1 else ""
    yield Finding(
        rows[0].path,
        f"{rows[0].type} takes (time, batch, features){more}: nn.DataParallel cuts its input along dim 0, "
        "which is time, not the batch",
        "build it with batch_first=True, or use nn.DataParallel(block, dim=1)",
    )


def _first_at_work(evidence: Evidence, rows: Iterable[int], *, past_records: bool = True) -> LayerFact | None:
    """Find the first row that gives more than its input: containers, Identity and their likes do not."""
    for index in rows:
        row = evidence.layers[index]
        traits = evidence.traits_of(row)
        if traits.is_container or (row.kind == "record" and past_records):
            continue
        if traits.passes_on and not traits.drops and not traits.writes_in_place:
            continue
        return row
    return None
