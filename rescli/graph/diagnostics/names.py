"""Who reads which Record: names that lead nowhere, Records that nobody reads, and one that several read.

What a complete run did is the truth; of a block that stopped, the structure has to tell the rest.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rescli.graph.diagnostics.rule import Finding, record_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rescli.graph.diagnostics.evidence import Evidence, Placement
    from rescli.graph.model import EdgeFact


def unknown_record(evidence: Evidence) -> Iterator[Finding]:
    """Find Applies that ask for a name that no Record in reach has."""
    names = {other.name for other in evidence.placements if other.kind == "record" and other.name}
    known = ", ".join(map(repr, sorted(names))) or "none"
    for place, later in read_structure(evidence).unresolved:
        if later is None:
            wanted = f"a Record named {place.name!r}" if place.name else "a Record"
            yield Finding(
                place.path,
                f"the Apply asks for {wanted}, and none is in reach; Records of the block: {known}",
                "name one of them in record_name=, or add the Record before the Apply",
            )


def apply_before_record(evidence: Evidence) -> Iterator[Finding]:
    """Find Applies that stand before the Record they ask for."""
    for place, later in read_structure(evidence).unresolved:
        if later is not None:
            yield Finding(
                place.path,
                f"the Apply reads {record_text(later.name)}, which stands after it at {later.path!r}",
                "put the Record before the layers that the skip spans",
            )


def unused_record(evidence: Evidence) -> Iterator[Finding]:
    """Find Records that nobody reads, and whose tensor no other of that name replaces."""
    for record, replaced_at in _unread(evidence):
        if replaced_at is None:
            yield Finding(
                record.path,
                f"{record_text(record.name)} is never read by an Apply",
                "add an Apply that names it, or take the Record out",
            )


def record_overwritten(evidence: Evidence) -> Iterator[Finding]:
    """Find Records whose tensor is replaced by another of that name before anybody reads it."""
    for record, replaced_at in _unread(evidence):
        if replaced_at is not None:
            yield Finding(
                record.path,
                f"{record_text(record.name)} is recorded again at {replaced_at!r} before an Apply has read it",
                "give one of the two another name",
            )


def skip_applied_twice(evidence: Evidence) -> Iterator[Finding]:
    """Find recorded tensors that several Applies read."""
    readers: dict[int, list[EdgeFact]] = defaultdict(list)
    for edge in evidence.edges:
        readers[edge.record_index].append(edge)
    for skips in readers.values():
        if len(skips) > 1:
            places = ", ".join(repr(skip.apply_path) for skip in skips)
            yield Finding(
                skips[0].record_path,
                f"{record_text(skips[0].record)} is applied {len(skips)} times, at {places}",
                "where one of them means another Record, name that one",
            )


@dataclass(slots=True)
class Recorded:
    """A recorded tensor, and whether anybody reads it."""

    path: str
    name: str | None
    scope: str
    is_read: bool = False


@dataclass(slots=True)
class Structure:
    """What the structure says about who reads what, as far as a sequence of layers tells.

    Args:
        records: The Records in order.
        unresolved: The Applies that find no Record, each with the Record behind it that it may mean.
    """

    records: list[Recorded] = field(default_factory=list)
    unresolved: list[tuple[Placement, Placement | None]] = field(default_factory=list)


def read_structure(evidence: Evidence) -> Structure:
    """Follow the names through the structure; of a complete run nothing is left to find.

    Args:
        evidence: The facts about the block.
    """
    structure = Structure()
    if evidence.failure is None:
        return structure
    visible: dict[str, dict[str | None, Recorded]] = defaultdict(dict)
    # Records that an Apply before them asks for: out of order, but not unused.
    awaited: set[str] = set()
    for place in evidence.placements:
        if place.kind == "record":
            record = Recorded(place.path, place.name, place.scope, place.path in awaited)
            structure.records.append(record)
            visible[place.scope][place.name] = visible[place.scope][None] = record
            continue
        found = _lookup(visible, place)
        if found is not None:
            found.is_read = True
            continue
        later = _later_record(place, evidence.placements)
        if later is not None:
            awaited.add(later.path)
        structure.unresolved.append((place, later))
    return structure


def _unread(evidence: Evidence) -> list[tuple[Recorded, str | None]]:
    """List the recorded tensors that nobody reads, each with the place that records its name again."""
    later: dict[tuple[str, str | None], str] = {}
    found = []
    for record in reversed(_records(evidence)):
        replaced_at = later.get((record.scope, record.name)) if record.name is not None else None
        later[record.scope, record.name] = record.path
        if not record.is_read:
            found.append((record, replaced_at))
    return found[::-1]


def _records(evidence: Evidence) -> list[Recorded]:
    if evidence.failure is not None:
        return read_structure(evidence).records
    scopes = {place.path: place.scope for place in evidence.placements}
    read = {edge.record_index for edge in evidence.edges}
    return [
        Recorded(row.path, row.record, scopes.get(row.path, ""), row.index in read)
        for row in evidence.layers
        if row.kind == "record"
    ]


def _lookup(visible: dict[str, dict[str | None, Recorded]], place: Placement) -> Recorded | None:
    """Look a name up in an Apply's own scope, then in those around it."""
    scope = place.scope
    while True:
        if place.name in visible[scope]:
            return visible[scope][place.name]
        if not scope:
            return None
        scope = scope.rpartition(".")[0]


def _later_record(place: Placement, placements: Sequence[Placement]) -> Placement | None:
    """Find the Record that an Apply asks for among those behind it and within its reach."""
    behind = placements[placements.index(place) + 1 :]
    for other in behind:
        is_asked_for = other.kind == "record" and place.name in (None, other.name)
        # A Record of an inner block is out of reach, wherever it stands.
        is_around = not other.scope or f"{place.scope}.".startswith(f"{other.scope}.")
        if is_asked_for and is_around:
            return other
    return None
