"""What construction can know of a block, as facts: who feeds whom, whose last use is where, how a child is called.

A plan is made once per structure, by position, so that the same layer may stand in several places and a name may
be recorded anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import nn
from torch.nn.modules import module as torch_module

from torchresidual.inplace import Writes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torchresidual.apply import Apply
    from torchresidual.record import Record
    from torchresidual.structure import Scope


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


def global_hooks() -> tuple[Mapping[int, Any], ...]:
    """Return the dictionaries of the hooks that torch runs on every module."""
    return (
        torch_module._global_forward_hooks,
        torch_module._global_forward_pre_hooks,
        torch_module._global_backward_hooks,
        torch_module._global_backward_pre_hooks,
    )


def registration_hooks() -> Mapping[int, Any]:
    """Return the hooks that torch runs when a module gets a child."""
    return torch_module._global_module_registration_hooks


def hooks_of(module: nn.Module) -> tuple[Mapping[int, Any], ...]:
    """Return the dictionaries that hold a module's hooks."""
    return (
        module._forward_hooks,
        module._forward_pre_hooks,
        module._backward_hooks,
        module._backward_pre_hooks,
    )


def are_outdated(containers: Containers) -> bool:
    """Say whether a nested container has other children than when a plan was made."""
    return any(children != tuple(container._modules.values()) for container, children in containers)


def are_switched(switches: Switches) -> bool:
    """Say whether a layer was told since to write in place, or no longer to."""
    return any(attributes.get("inplace", was) is not was for attributes, was in switches)


def edges_of(plan: Plan, prefix: str = "") -> Iterator[Edge]:
    """Yield the skips of a plan and of the nested blocks, with places as seen from the outermost."""
    for record, name, apply, operation in plan.edges:
        yield Edge(prefix + record, name, prefix + apply, operation)
    for path, block in plan.blocks:
        yield from edges_of(block.plan, f"{prefix}{path}.")
