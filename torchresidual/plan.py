"""What construction can know of a block: who feeds whom, whose last use is where, how a child is called.

A plan is made once per structure, by position, so that the same layer may stand in several places and a name may
be recorded anew. Plain nested ``nn.Sequential`` containers belong to the scope of the block around them; a nested
``ResidualSequential`` opens a scope of its own, and a name not found in it is looked up in the enclosing ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import nn
from torch.nn.modules import module as torch_module

from torchresidual.alpha import LearnableAlpha
from torchresidual.apply import Apply
from torchresidual.epoch import EDITS
from torchresidual.inplace import Writes, never_writes, switches_of, writes_into_input
from torchresidual.operations import OPERATIONS
from torchresidual.record import Record
from torchresidual.wrappers import RecurrentWrapper

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from torchresidual.frame import Frame


class Call(IntEnum):
    """How one position of a block is run."""

    LAYER = 0
    GUARDED = 1  # may write into its input while recorded tensors are live
    RECORD = 2
    APPLY = 3
    SEARCH = 4  # an Apply whose Record is known only at run time
    ENTER = 5  # the start of a nested nn.Sequential: its children follow as steps of their own
    LEAVE = 6  # its end
    ATTENTION = 7  # self-attention: called with x as query, key and value


# Looked up once: a member of an enum costs more than the comparison.
_LAYER, _RECORD, _APPLY = Call.LAYER, Call.RECORD, Call.APPLY
_MARKERS = (Record, Apply)


@dataclass
class Step:
    """One position of a block, in order of execution.

    Args:
        call: How it is run.
        module: What stands there.
        path: Its place in the block, for instance ``"1.0"``.
        key: The name of the block's direct child, or "" inside a nested nn.Sequential.
        place: For a Record, where in the frame its tensor goes; for an Apply, where it comes from.
        kept: For a Record, whether anybody reads it.
        projects: For an Apply, whether its Record allows a projection.
        attention: Path of the self-attention that it is, or of one that it holds where it cannot work: in a
            plain nn.Sequential, which would call it with x alone.
        wrapped: Whether ``hidden`` goes to it.
        writes: What it does to its input's memory.
        live: The places that hold recorded tensors while it runs.
        releases: The places whose last reader it is.
        end: For ENTER, the position of its LEAVE.
    """

    call: Call
    module: nn.Module
    path: str
    key: str
    # Rarely other than this: as attributes of the class they cost nothing when one of thousands is made.
    place: int = field(default=-1, init=False)
    kept: bool = field(default=False, init=False)
    projects: bool = field(default=False, init=False)
    attention: str = field(default="", init=False)
    wrapped: bool = field(default=False, init=False)
    writes: Writes = field(default=Writes.NEVER, init=False)
    live: tuple[int, ...] = field(default=(), init=False)
    releases: tuple[int, ...] = field(default=(), init=False)
    end: int = field(default=0, init=False)


class Place(NamedTuple):
    """Where one Record saves its tensor: its position in the frame of a call."""

    record: Record
    name: str
    path: str


@dataclass(frozen=True, slots=True)
class Edge:
    """A skip that the structure shows.

    Args:
        record_path: Place of the Record in the block, for instance ``"0"``.
        record_name: The name it saves under, given or automatic.
        apply_path: Place of the Apply.
        operation: What the Apply does: add, concat, multiply, gated or highway.
    """

    record_path: str
    record_name: str
    apply_path: str
    operation: str


@dataclass(frozen=True, slots=True)
class FreeRead:
    """An Apply whose Record must come from an enclosing block."""

    apply: Apply
    path: str


# The attributes of layers that can be told to write in place, each with what it was told.
Switches = list[tuple[dict[str, Any], bool]]
# Nested containers, each with the children that it had.
Containers = list[tuple[nn.Sequential, tuple[nn.Module, ...]]]


@dataclass(slots=True)
class Plan:
    """All that a block's forward need not work out again.

    Args:
        steps: What to run, in order.
        places: Where Records save, in order.
        names: The name each Record of this scope saves under, by ``id``.
        edges: The skips of this scope: what an ``Edge`` is made of.
        blocks: The nested blocks, each with its place.
        free: Reads that this block cannot serve itself.
        publishes: Whether recorded tensors must be findable by name while the block runs.
        children: The block's children when the plan was made, to notice edits.
        containers: Likewise for each nested nn.Sequential, at any depth.
        switches: The attributes of the layers near a live recorded tensor that can be told to write in place, with
            what they were told when the plan was made.
        hooks: The dictionaries of hooks of torch's for all modules and of the nested containers.
        watched: Those of Records, Applies and alphas that hold a hook. While all of both are empty nobody watches. One
            that never is empty stands for a Record or Apply of a class with a ``forward`` of its own, which must be
            called.
        sized: Whether an Apply, here or in a nested block, wants to know sizes or the feature dimension.
        guarded: The Records, by ``id``, whose tensor a layer may write into while it is still needed.
        epoch: The count of edits when the plan was made.
    """

    children: tuple[nn.Module, ...]
    steps: list[Step] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    edges: list[tuple[str, str, str, str]] = field(default_factory=list)
    blocks: list[tuple[str, Scope]] = field(default_factory=list)
    free: list[FreeRead] = field(default_factory=list)
    publishes: bool = False
    containers: Containers = field(default_factory=list)
    switches: Switches = field(default_factory=list)
    hooks: tuple[Mapping[int, Any], ...] = ()
    watched: tuple[Mapping[int, Any], ...] = ()
    guarded: set[int] = field(default_factory=set)
    sized: bool = False
    epoch: int = 0


def is_watched(plan: Plan) -> bool:
    """Say whether hooks must run on what a block would otherwise run without calling it."""
    return any(plan.hooks) or any(plan.watched)


def _global_hooks() -> tuple[Mapping[int, Any], ...]:
    return (
        torch_module._global_forward_hooks,
        torch_module._global_forward_pre_hooks,
        torch_module._global_backward_hooks,
        torch_module._global_backward_pre_hooks,
    )


def hooks_of(module: nn.Module) -> tuple[Mapping[int, Any], ...]:
    """Return the dictionaries that hold a module's hooks."""
    return (
        module._forward_hooks,
        module._forward_pre_hooks,
        module._backward_hooks,
        module._backward_pre_hooks,
    )


class Scope(nn.Sequential):
    """A sequence that has a plan: ResidualSequential, as far as planning needs to know it."""

    @property
    def plan(self) -> Plan:
        """The plan of the children as they stand."""
        raise NotImplementedError

    @property
    def plain(self) -> bool:
        """Whether it may be run without being called: no hooks, and no ``forward`` of a subclass."""
        raise NotImplementedError

    def run_inside(self, x: Any, frame: Frame) -> Any:
        """Run it inside the forward of an enclosing block, as calling it would."""
        raise NotImplementedError


def edges_of(plan: Plan, prefix: str = "") -> Iterator[Edge]:
    """Yield the skips of a plan and of the nested blocks, with places as seen from the outermost."""
    for record, name, apply, operation in plan.edges:
        yield Edge(prefix + record, name, prefix + apply, operation)
    for path, block in plan.blocks:
        yield from edges_of(block.plan, f"{prefix}{path}.")


def children_of(container: nn.Sequential) -> tuple[nn.Module, ...]:
    """Return the children by position; ``children()`` drops repeats."""
    return tuple(container._modules.values())


def runs_in_order(module: nn.Module) -> bool:
    """Say whether a module is a plain nn.Sequential: no block of ours, no subclass with a ``forward`` of its own."""
    return (
        isinstance(module, nn.Sequential)
        and not isinstance(module, Scope)
        and type(module).forward is nn.Sequential.forward
        and "forward" not in module.__dict__
    )


def attention_path(module: nn.Module, path: str) -> str:
    """Return the path of the self-attention that a layer is, or that plain nn.Sequentials in it hold, or ""."""
    if isinstance(module, nn.MultiheadAttention):
        return path
    if not runs_in_order(module):
        return ""
    found = (attention_path(child, f"{path}.{key}") for key, child in module.named_children())
    return next((inner for inner in found if inner), "")


def is_transparent(module: nn.Module) -> bool:
    """Say whether a module is a plain nn.Sequential that holds a Record or Apply of the scope around it."""
    return runs_in_order(module) and any(
        isinstance(child, Record | Apply) or is_transparent(child) for child in module.children()
    )


def direct_markers(module: nn.Module) -> Iterator[tuple[str, Record | Apply]]:
    """Yield the Records and Applies inside a layer of the user's own that see this scope, in order.

    Those inside a block within the layer belong to that block; its Applies that read outwards do see this scope.
    """
    if isinstance(module, Record | Apply):
        yield "", module
        return
    if isinstance(module, Scope):
        for read in module.plan.free:
            yield read.path, read.apply
        return
    for key, child in module.named_children():
        for path, marker in direct_markers(child):
            yield f"{key}.{path}" if path else key, marker


def walk(block: nn.Module, prefix: str = "") -> Iterator[tuple[str, nn.Module, bool]]:
    """Yield (path, module, whether it is a transparent container) in order of execution.

    The children of a transparent container follow it.
    """
    for key, child in block._modules.items():
        if child is None:
            continue
        path = prefix + key
        transparent = bool(child._modules) and is_transparent(child)
        yield path, child, transparent
        if transparent:
            yield from walk(child, path + ".")


def automatic_names(modules: Iterable[nn.Module]) -> dict[int, str]:
    """Return the name of each Record of a scope by ``id``: the given one, or ``record_N`` by its number.

    The second Record of a block is ``record_2`` whether or not the first has a name, as in torchresidual 0.1.0; where
    that name is taken, the next free one is used.

    Args:
        modules: What the scope holds, in order of execution, as ``walk`` gives it.
    """
    records = {id(module): module for module in modules if isinstance(module, Record)}
    names = {key: record._given_name for key, record in records.items()}
    taken = set(names.values())
    for position, key in enumerate(records, start=1):
        number = position
        while names[key] is None:
            if f"record_{number}" not in taken:
                names[key] = f"record_{number}"
                taken.add(names[key])
            number += 1
    return {key: name for key, name in names.items() if name is not None}


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
    plan.hooks = (*_global_hooks(), *(hooks for container in _entered(plan) for hooks in hooks_of(container)))
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


def are_outdated(containers: Containers) -> bool:
    """Say whether a nested container has other children than when a plan was made."""
    return any(children != tuple(container._modules.values()) for container, children in containers)


def are_switched(switches: Switches) -> bool:
    """Say whether a layer was told since to write in place, or no longer to."""
    return any(attributes.get("inplace", was) is not was for attributes, was in switches)


def _is_overridden(marker: nn.Module) -> bool:
    """Say whether a Record or Apply is of a class with a ``forward`` of its own."""
    if not isinstance(marker, Record | Apply):
        return False
    return "forward" in marker.__dict__ or type(marker).forward not in (Record.forward, Apply.forward)


def _wants_sizes(marker: Record | Apply) -> bool:
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
        self.plan.sized = self.plan.sized or _wants_sizes(apply)
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
            self.plan.sized = self.plan.sized or _wants_sizes(marker)
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
