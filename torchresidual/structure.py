"""How a block is put together: its scopes, containers and markers, in order of execution.

Plain nested ``nn.Sequential`` containers belong to the scope of the block around them; a nested
``ResidualSequential`` opens a scope of its own, and a name not found in it is looked up in the enclosing ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn

from torchresidual.apply import Apply
from torchresidual.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchresidual.frame import Frame
    from torchresidual.plan import Plan


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
