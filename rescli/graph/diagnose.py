"""What a reader should know about a block: mistakes in its skips, and where it stops.

Codes are stable; each has one meaning:

    unknown-record      error    an Apply asks for a name that no Record has
    apply-before-record error    an Apply stands before the Record it asks for
    shape-mismatch      error    the recorded and the current tensor cannot be combined
    layer-failed        error    a layer raised an error
    unused-record       warning  nobody reads a Record
    record-overwritten  warning  a Record's tensor is replaced by another of that name before anybody reads it
    skip-applied-twice  note     several Applies read the same recorded tensor
    needs-data          note     a large block ran on the CPU (found by the tracer)
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rescli.graph.model import Diagnostic

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rescli.graph.model import EdgeFact, Failure, LayerFact


_ABOUT_SHAPES = re.compile(r"\b(shapes?|sizes?|dim|dimensions?|channels?)\b")


@dataclass(frozen=True, slots=True)
class Placement:
    """One place of a Record or Apply in the structure.

    Args:
        path: The position in the module tree.
        kind: Which of the two it is.
        name: Of a Record its name, of an Apply the name it asks for; None for the latest Record.
        scope: Path of the ResidualSequential that it belongs to.
    """

    path: str
    kind: Literal["record", "apply"]
    name: str | None
    scope: str


def diagnose(
    layers: Sequence[LayerFact],
    edges: Sequence[EdgeFact],
    failure: Failure | None,
    placements: Sequence[Placement],
) -> tuple[Diagnostic, ...]:
    """Find what is wrong with a block, the gravest first.

    What a complete run did is the truth; of a block that stopped, the structure has to tell the rest.

    Args:
        layers: The rows of the run.
        edges: The skips of the run.
        failure: Where it stopped, if it did.
        placements: The Records and Applies in the order of the structure.
    """
    scopes = {place.path: place.scope for place in placements}
    if failure is None:
        read = {edge.record_index for edge in edges}
        records = [
            _Recorded(row.path, row.record, scopes.get(row.path, ""), row.index in read)
            for row in layers
            if row.kind == "record"
        ]
        return (*_unread(records), *_read_twice(edges))
    structure = _Structure(placements)
    found = [*structure.unresolved]
    if failure.path not in {each.path for each in found}:
        found.insert(0, _failed(failure))
    return (*found, *_unread(structure.records), *_read_twice(edges))


@dataclass(slots=True)
class _Recorded:
    """A recorded tensor, and whether anybody reads it."""

    path: str
    name: str | None
    scope: str
    is_read: bool = False


def _unread(records: Sequence[_Recorded]) -> Iterator[Diagnostic]:
    later: dict[tuple[str, str | None], str] = {}
    found = []
    for record in reversed(records):
        replaced_at = later.get((record.scope, record.name))
        later[record.scope, record.name] = record.path
        if record.is_read:
            continue
        if replaced_at is None or record.name is None:
            found.append(
                Diagnostic(
                    code="unused-record",
                    severity="warning",
                    path=record.path,
                    message=f"{_record(record.name)} is never read by an Apply",
                    hint="add an Apply that names it, or take the Record out",
                )
            )
        else:
            found.append(
                Diagnostic(
                    code="record-overwritten",
                    severity="warning",
                    path=record.path,
                    message=f"{_record(record.name)} is recorded again at {replaced_at!r} before an Apply has read it",
                    hint="give one of the two another name",
                )
            )
    yield from reversed(found)


def _read_twice(edges: Sequence[EdgeFact]) -> Iterator[Diagnostic]:
    readers: dict[int, list[EdgeFact]] = defaultdict(list)
    for edge in edges:
        readers[edge.record_index].append(edge)
    for skips in readers.values():
        if len(skips) > 1:
            places = ", ".join(repr(skip.apply_path) for skip in skips)
            yield Diagnostic(
                code="skip-applied-twice",
                severity="note",
                path=skips[0].record_path,
                message=f"{_record(skips[0].record)} is applied {len(skips)} times, at {places}",
                hint="",
            )


def _failed(failure: Failure) -> Diagnostic:
    recorded, current = failure.recorded_shape, failure.current_shape
    if recorded is not None and current is not None and recorded != current:
        return Diagnostic(
            code="shape-mismatch",
            severity="error",
            path=failure.path,
            message=failure.reason,
            hint="Apply(projection=...) takes a module of your own for the skip",
        )
    given = f" on input {failure.input}" if failure.input else ""
    return Diagnostic(
        code="layer-failed",
        severity="error",
        path=failure.path,
        message=f"{failure.type or 'the block'} failed{given}: {failure.reason}",
        hint="compare the shape with what the layer takes; --input gives another one"
        if _ABOUT_SHAPES.search(failure.reason)
        else "",
    )


class _Structure:
    """What the structure says about who reads what, as far as a sequence of layers tells.

    Args:
        placements: The Records and Applies in order.
    """

    def __init__(self, placements: Sequence[Placement]) -> None:
        self.records: list[_Recorded] = []
        self.unresolved: list[Diagnostic] = []
        visible: dict[str, dict[str | None, _Recorded]] = defaultdict(dict)
        # Records that an Apply before them asks for: out of order, but not unused.
        awaited: set[str] = set()
        for place in placements:
            if place.kind == "record":
                record = _Recorded(place.path, place.name, place.scope, place.path in awaited)
                self.records.append(record)
                visible[place.scope][place.name] = visible[place.scope][None] = record
                continue
            found = _lookup(visible, place)
            if found is not None:
                found.is_read = True
                continue
            later = _later_record(place, placements)
            if later is not None:
                awaited.add(later.path)
            self.unresolved.append(_unresolved(place, later, placements))


def _lookup(visible: dict[str, dict[str | None, _Recorded]], place: Placement) -> _Recorded | None:
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


def _unresolved(place: Placement, later: Placement | None, placements: Sequence[Placement]) -> Diagnostic:
    if later is not None:
        return Diagnostic(
            code="apply-before-record",
            severity="error",
            path=place.path,
            message=f"the Apply reads {_record(later.name)}, which stands after it at {later.path!r}",
            hint="put the Record before the layers that the skip spans",
        )
    names = {other.name for other in placements if other.kind == "record" and other.name}
    known = ", ".join(map(repr, sorted(names))) or "none"
    wanted = f"a Record named {place.name!r}" if place.name else "a Record"
    return Diagnostic(
        code="unknown-record",
        severity="error",
        path=place.path,
        message=f"the Apply asks for {wanted}, and none is in reach; Records of the block: {known}",
        hint="name one of them in record_name=, or add the Record before the Apply",
    )


def _record(name: str | None) -> str:
    return f"the record {name!r}" if name else "an unnamed record"
