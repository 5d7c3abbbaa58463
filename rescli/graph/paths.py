"""Where in the module tree a call happens, also for an object that stands in several places."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn


class CallPaths:
    """Gives each call of a module the path of the place that it was called from.

    The k-th call of an object by one parent belongs to the k-th place that the object has under that parent;
    a parent that calls it more often begins again. The first place under the parent's own children counts
    before those deeper down, which a parent reaches through containers that are not called, as a ModuleList.

    Args:
        block: The outermost module.
    """

    def __init__(self, block: nn.Module) -> None:
        self._block = block
        self._places: dict[int, dict[int, list[str]]] = {}
        self._is_searched: set[int] = set()

    def path(self, parent: nn.Module, parent_path: str, module: nn.Module, calls_before: int) -> str:
        """Work out the path of one call.

        Args:
            parent: The module whose forward makes the call.
            parent_path: The path of the parent's own call.
            module: What is called.
            calls_before: How often the parent has called it before, in this call of its own.
        """
        places = self._under(parent, module)
        if places:
            relative = places[calls_before % len(places)]
            return f"{parent_path}.{relative}" if parent_path else relative
        # Called by somebody it does not belong to: its first place in the whole block.
        elsewhere = self._under(self._block, module)
        return elsewhere[0] if elsewhere else parent_path

    def _under(self, parent: nn.Module, module: nn.Module) -> list[str]:
        places = self._places.get(id(parent))
        if places is None:
            places = self._places[id(parent)] = defaultdict(list)
            for key, child in parent._modules.items():  # noqa: SLF001 - children() drops repeats
                places[id(child)].append(key)
        if id(module) not in places and id(parent) not in self._is_searched:
            self._is_searched.add(id(parent))
            direct = set(places)
            for path, below in parent.named_modules():
                if path and id(below) not in direct:
                    places[id(below)].append(path)
        return places.get(id(module), [])
