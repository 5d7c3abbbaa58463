"""Give the Applies of a block the projections and gates they need, as far as its layers tell the sizes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torch import nn

from torchresidual.apply import Apply
from torchresidual.layout import LAST, Stream, Variable, after
from torchresidual.operations import OPERATIONS
from torchresidual.projection import (
    CARRY_START,
    TRANSFORM_START,
    Bridge,
    HighwayGates,
    Placement,
    Unsettled,
    build,
    placement_of,
    settle,
)
from torchresidual.record import Record
from torchresidual.structure import Scope, automatic_names, direct_markers, walk

if TYPE_CHECKING:
    from torchresidual.layout import Form


@dataclass(slots=True)
class _Names:
    """What the names of one scope mean at the current position: a Record and the stream at it."""

    automatic: dict[int, str]
    parent: _Names | None
    known: dict[str | None, tuple[Record, Stream]] = field(default_factory=dict)

    def find(self, name: str | None) -> tuple[Record, Stream] | None:
        scope: _Names | None = self
        while scope is not None:
            if name in scope.known:
                return scope.known[name]
            scope = scope.parent
        return None


@dataclass(frozen=True, slots=True)
class _Skip:
    """One Apply with what is known at both ends of its skip."""

    apply: Apply
    record: Record
    source: Stream
    stream: Stream
    position: int  # how many layers stand before the Apply


def size_block(block: Scope) -> None:
    """Make, settle, keep or remove the projections and gates of a block and of the blocks inside it.

    What exists already is kept, trained weights included, unless the layers around it now contradict its sizes.

    Args:
        block: The outermost block; blocks around it may know more and size it again.
    """
    walker = _Walker(block)
    try:
        walker.scope(block, Stream.unknown(), None)
    except RecursionError:
        return  # nested deeper than Python recurses: a call would end there too, and says so
    walker.solve()
    for skip in walker.skips:
        _equip(skip, walker)


class _Walker:
    """Carries what is known through the layers, in order of execution, and collects the skips."""

    def __init__(self, block: Scope) -> None:
        self.skips: list[_Skip] = []
        self.sums: list[tuple[Variable[int], Variable[int], Variable[int]]] = []
        self.block = block
        self.layers: list[nn.Module] = []

    def scope(self, block: Scope, stream: Stream, parent: _Names | None) -> Stream:
        return self.sequence(
            block, stream, _Names(automatic_names(module for _, module, _ in walk(block)), parent)
        )

    def sequence(self, container: nn.Sequential, stream: Stream, names: _Names) -> Stream:
        for child in container._modules.values():
            if child is not None:
                stream = self.child(child, stream, names)
        return stream

    def child(self, child: nn.Module, stream: Stream, names: _Names) -> Stream:
        if isinstance(child, Record):
            self.record(child, stream, names, names.automatic.get(id(child)))
            return stream
        if isinstance(child, Apply):
            return self.apply(child, stream, names)
        if isinstance(child, Scope):
            return self.scope(child, stream, names)
        if isinstance(child, nn.Sequential) and type(child).forward is nn.Sequential.forward:
            return self.sequence(child, stream, names)
        for _, marker in direct_markers(child):
            # Inside a layer of the user's own: what happens around it there is not ours to know.
            if isinstance(marker, Record):
                self.record(marker, Stream.unknown(), names, marker.name)
            else:
                self.apply(marker, Stream.unknown(), names)
        self.layers.append(child)
        return after(child, stream)

    def record(self, record: Record, stream: Stream, names: _Names, name: str | None) -> None:
        names.known[None] = (record, stream)
        if name is not None:
            names.known[name] = (record, stream)

    def apply(self, apply: Apply, stream: Stream, names: _Names) -> Stream:
        operation = OPERATIONS[apply.operation]
        found = names.find(apply.record_name)
        if found is None:
            return stream.resized(None) if operation.joins else stream
        record, source = found
        self.skips.append(_Skip(apply, record, source, stream, len(self.layers)))
        if not operation.joins:
            return stream
        result = stream.resized(None)
        self.sums.append((result.size, stream.size, self.joined_size(apply, record, source, stream)))
        self.solve()
        return result

    def joined_size(self, apply: Apply, record: Record, source: Stream, stream: Stream) -> Variable[int]:
        """Return how many features the recorded tensor adds to a concat."""
        if apply.projection_given and apply.projection_layer is not None:
            return self.child(apply.projection_layer, source, _Names({}, None)).size
        return stream.size if record.need_projection else source.size

    def placement(self, skip: _Skip) -> Placement:
        """Return where new parameters live: as the nearest ones before them, or else as the block's first."""
        found = (placement_of(layer) for layer in reversed(self.layers[: skip.position]))
        return (
            next((placement for placement in found if placement), None)
            or placement_of(self.block)
            or Placement()
        )

    def solve(self) -> None:
        """Learn sizes from concats: of two parts and their sum, two tell the third."""
        pending = self.sums
        while True:
            left = []
            for total, a, b in pending:
                if a.value is not None and b.value is not None:
                    total.learn(a.value + b.value)
                elif total.value is not None and a.same_as(b) and total.value % 2 == 0:
                    a.learn(total.value // 2)
                elif (
                    total.value is not None
                    and (a.value or b.value)
                    and total.value > (a.value or b.value or 0)
                ):
                    (b if a.value else a).learn(total.value - (a.value or b.value or 0))
                else:
                    left.append((total, a, b))
            if len(left) == len(pending):
                break
            pending = left
        self.sums = pending


def _equip(skip: _Skip, walker: _Walker) -> None:
    """Give one Apply what it needs."""
    apply, stream = skip.apply, skip.stream
    form = stream.form.value or skip.source.form.value
    if form is not None:
        apply.settled_dim = form.dim
    elif stream.channels_first or skip.source.channels_first:
        apply.settled_dim = 1
    # Else what another block that holds the same Apply has told stays.
    if not apply.projection_given:
        _equip_projection(skip, form, walker)
    if OPERATIONS[apply.operation].gates:
        size = stream.size.value if _follows(apply, form) else None
        bridge = None if size is None or form is None else Bridge(size, size, form.spatial)
        _equip_gates(skip, bridge, walker)
    else:
        apply.gate_layer = None


def _follows(apply: Apply, form: Form | None) -> bool:
    """Say whether the sizes that the walk knows are those of the dimension the Apply works along."""
    if apply.dim is None:
        return True
    return form is not None and (apply.dim == form.dim or (form.spatial is not None and apply.dim == 1))


def _equip_projection(skip: _Skip, form: Form | None, walker: _Walker) -> None:
    apply, source, stream = skip.apply, skip.source, skip.stream
    if not skip.record.need_projection:
        apply.projection_layer = None
        return
    # Nothing strides over features in the last dimension, whatever stands between.
    stride = () if form == LAST == source.form.value else stream.stride_since(source)
    follows = _follows(apply, form)
    if follows and source.size.same_as(stream.size) and stride == ():
        apply.projection_layer = None
        return
    size_in, size_out = source.size.value, stream.size.value
    existing = apply.projection_layer
    if not follows or form is None or size_in is None or size_out is None or stride is None:
        if existing is None:
            known = stride is not None and all(step.denominator == 1 and step >= 1 for step in stride)
            steps = tuple(int(step) for step in stride or ()) if known else None
            apply.projection_layer = Unsettled(placement=walker.placement(skip), stride=steps)
        return
    if any(step.denominator != 1 or step < 1 for step in stride):
        apply.projection_layer = None  # an upsampling skip: the call refuses it and says what to do
        return
    steps = tuple(int(step) for step in stride) if form.spatial is not None else ()
    bridge = Bridge(size_in, size_out, form.spatial, steps)
    if type(existing) is Unsettled:
        settle(existing, bridge)
    elif existing is None or _contradicts(existing, bridge):
        apply.projection_layer = build(bridge, placement=walker.placement(skip))


def _equip_gates(skip: _Skip, bridge: Bridge | None, walker: _Walker) -> None:
    existing = skip.apply.gate_layer
    if existing is None:
        gates = [_gate(start, bridge, walker.placement(skip)) for start in (TRANSFORM_START, CARRY_START)]
        skip.apply.gate_layer = HighwayGates(*gates)
        return
    if bridge is None:
        return
    for name, start in (("transform_gate", TRANSFORM_START), ("carry_gate", CARRY_START)):
        gate = existing.get_submodule(name)
        if type(gate) is Unsettled:
            settle(gate, bridge)
        elif _contradicts(gate, bridge):
            setattr(existing, name, _gate(start, bridge, walker.placement(skip)))


def _gate(start: float, bridge: Bridge | None, placement: Placement) -> nn.Module:
    if bridge is None:
        return Unsettled(start, placement=placement)
    return build(bridge, gate_start=start, placement=placement)


def _contradicts(layer: nn.Module, bridge: Bridge) -> bool:
    """Say whether a layer is of a plain type and of other sizes; a wrapper put around it is left alone."""
    return isinstance(layer, nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d) and not bridge.fits(layer)
