"""Make the plan of a block from its children as they stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import nn

from torchresidual.alpha import LearnableAlpha
from torchresidual.apply import Apply
from torchresidual.epoch import EDITS
from torchresidual.inplace import Writes, never_writes, switches_of, writes_into_input
from torchresidual.operations import OPERATIONS
from torchresidual.plan import Call, Containers, FreeRead, Place, Plan, Step, global_hooks, hooks_of
from torchresidual.record import Record
from torchresidual.structure import (
    Scope,
    attention_path,
    automatic_names,
    children_of,
    direct_markers,
    walk,
)
from torchresidual.wrappers import RecurrentWrapper

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Looked up once: a member of an enum costs more than the comparison.
_LAYER, _RECORD, _APPLY = Call.LAYER, Call.RECORD, Call.APPLY
_MARKERS = (Record, Apply)


def make_plan(block: nn.Sequential) -> Plan:
    """Work out the plan of a block from its children as they stand.

    Args:
        block: The block; nested blocks have their own plans, which are read.
    """
    plan = Plan(children=children_of(block))
    order = list(walk(block))
    plan.names = automatic_names(module for _, module, _ in order)
    plan.epoch = EDITS.count
    _Reader(plan).read(order)
    plan.containers = _containers_in(block)
    plan.publishes |= bool(plan.free)
    plan.hooks = (*global_hooks(), *(hooks for container in _entered(plan) for hooks in hooks_of(container)))
    for marker in _markers(plan):
        if any(hooks := hooks_of(marker)):
            plan.watched += tuple(filter(None, hooks))
        if _is_overridden(marker):
            plan.watched += ({0: "always"},)
    return plan


def _entered(plan: Plan) -> Iterator[nn.Module]:
    """Yield the nested containers that are run without being called."""
    return (step.module for step in plan.steps if step.call is Call.ENTER)


def _markers(plan: Plan) -> Iterator[nn.Module]:
    """Yield the Records, Applies and alphas that are run without being called; they tell of every new hook."""
    for step in plan.steps:
        if step.call in (_RECORD, _APPLY, Call.SEARCH):
            yield step.module
            alpha = step.module._modules.get("alpha")
            if isinstance(alpha, LearnableAlpha):
                yield alpha


def _containers_in(block: nn.Module) -> Containers:
    """Return the nested nn.Sequentials at any depth; what a nested block holds, its plan has listed."""
    found: dict[int, tuple[nn.Sequential, tuple[nn.Module, ...]]] = {}
    open_modules = [child for child in block._modules.values() if child is not None and child._modules]
    while open_modules:
        module = open_modules.pop()
        if id(module) in found:
            continue
        if isinstance(module, Scope):
            found.update((id(container), (container, inner)) for container, inner in module.plan.containers)
            continue
        if isinstance(module, nn.Sequential):
            found[id(module)] = (module, children_of(module))
        open_modules.extend(child for child in module.children() if child._modules)
    return list(found.values())


def _is_overridden(marker: nn.Module) -> bool:
    """Say whether a Record or Apply is of a class with a ``forward`` of its own."""
    if not isinstance(marker, Record | Apply):
        return False
    return "forward" in marker.__dict__ or type(marker).forward not in (Record.forward, Apply.forward)


def wants_sizes(marker: Record | Apply) -> bool:
    """Say whether a Record or Apply makes it necessary to know the sizes around it, or has what may be in the way."""
    if isinstance(marker, Record):
        return marker.need_projection
    operation = OPERATIONS[marker.operation]
    has_layers = any(marker._modules.get(name) is not None for name in ("projection_layer", "gate_layer"))
    return operation.joins or operation.gates or has_layers


@dataclass(frozen=True, slots=True)
class _Meaning:
    """What a name means at a position: the latest planned Record, and whether a layer may have recorded since."""

    place: int | None
    searched: bool = False


_UNKNOWN = _Meaning(None)


class _Reader:
    """Fills a plan in one pass over the positions of a block, linear in their number."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.meaning: dict[str | None, _Meaning] = {}
        self.readers: dict[int, int] = {}  # place -> the last step that reads it
        self.hidden_records = False  # whether a layer of the user's own records something

    def read(self, order: Iterable[tuple[str, nn.Module, bool]]) -> None:
        steps, containers = self.plan.steps, list[Step]()
        for path, module, transparent in order:
            if not (containers or module._modules or isinstance(module, _MARKERS)):
                steps.append(Step(_LAYER, module, path, path))  # most layers: nothing is around nor inside
                continue
            while containers and not path.startswith(containers[-1].path + "."):
                self._leave(containers.pop())
            step = self._step(path, module, transparent)
            steps.append(step)
            if transparent:
                containers.append(step)
        while containers:
            self._leave(containers.pop())
        self._settle_lifetimes()

    def _leave(self, enter: Step) -> None:
        enter.end = len(self.plan.steps)
        self.plan.steps.append(Step(Call.LEAVE, enter.module, enter.path, enter.key))

    def _step(self, path: str, module: nn.Module, transparent: bool) -> Step:
        key = "" if "." in path else path
        if isinstance(module, Record):
            return self._record(Step(_RECORD, module, path, key), module)
        if isinstance(module, Apply):
            return self._apply(Step(_APPLY, module, path, key), module)
        if transparent:
            return Step(Call.ENTER, module, path, key)
        if not module._modules:  # most layers: nothing can be inside
            return Step(_LAYER, module, path, key)
        step = Step(_LAYER, module, path, key)
        step.attention = attention_path(module, path)
        step.wrapped = isinstance(module, RecurrentWrapper)
        if step.attention:
            step.call = Call.ATTENTION
        self._layer(step)
        return step

    def _record(self, step: Step, record: Record) -> Step:
        self.plan.sized |= record.need_projection
        step.place = len(self.plan.places)
        name = self.plan.names[id(record)]
        self.plan.places.append(Place(record, name, step.path))
        self.meaning[name] = self.meaning[None] = _Meaning(step.place)
        return step

    def _apply(self, step: Step, apply: Apply) -> Step:
        self.plan.sized = self.plan.sized or wants_sizes(apply)
        meaning = self._read(apply, step.path)
        if meaning.place is None or meaning.searched:
            step.call = Call.SEARCH
        else:
            step.place = meaning.place
            step.projects = self.plan.places[meaning.place].record.need_projection
        return step

    def _layer(self, step: Step) -> None:
        """Note what a layer reads and records inside itself."""
        if isinstance(step.module, Scope):
            self.plan.blocks.append((step.path, step.module))
            self.plan.sized |= step.module.plan.sized
        for path, marker in direct_markers(step.module):
            self.plan.publishes = True
            self.plan.sized = self.plan.sized or wants_sizes(marker)
            if isinstance(marker, Apply):
                self._read(marker, f"{step.path}.{path}")
                continue
            self.hidden_records = True
            if any(getattr(module, "inplace", False) is True for module in step.module.modules()):
                self.plan.guarded.add(id(marker))
            for name in {marker.name, None}:
                self.meaning[name] = _Meaning(self.meaning.get(name, _UNKNOWN).place, searched=True)

    def _read(self, apply: Apply, path: str) -> _Meaning:
        """Return what an Apply at the current position reads, and note that it does."""
        meaning = self.meaning.get(apply.record_name, _UNKNOWN)
        if meaning.place is not None:
            self.readers[meaning.place] = len(self.plan.steps)
        if meaning.searched:
            self.plan.publishes = True
        elif meaning.place is None:
            self.plan.free.append(FreeRead(apply, path))
        else:
            place = self.plan.places[meaning.place]
            self.plan.edges.append((place.path, place.name, path, apply.operation))
        return meaning

    def _settle_lifetimes(self) -> None:
        """Work out, per step, which recorded tensors are live and which end there."""
        ends: dict[int, list[int]] = {}
        for place, reader in self.readers.items():
            ends.setdefault(reader, []).append(place)
        live: dict[int, None] = {}
        for position, step in enumerate(self.plan.steps):
            if step.call is _RECORD:
                step.kept = step.place in self.readers
                if step.kept:
                    live[step.place] = None
            elif (
                step.call in (_LAYER, Call.ATTENTION)
                and (live or self.hidden_records)
                and not never_writes(step.module)
            ):
                self._guard(step, tuple(live))
            if position in ends:
                step.releases = tuple(ends[position])
                for place in step.releases:
                    live.pop(place, None)

    def _guard(self, step: Step, live: tuple[int, ...]) -> None:
        """Note what a layer that can write does to its input, while recorded tensors are live."""
        self.plan.switches.extend((layer.__dict__, bool(layer.inplace)) for layer in switches_of(step.module))
        step.writes = writes_into_input(step.module)
        if step.writes is not Writes.NEVER:
            step.call = Call.GUARDED
            step.live = live
            self.plan.guarded.update(id(self.plan.places[place].record) for place in live)
