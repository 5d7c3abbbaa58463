"""The points where threads can hand over: the entry and the exit of every submodule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rescli.threads.result import Point

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn


def install_points(module: nn.Module, visit: Callable[[Point], None]) -> None:
    """Call ``visit`` at the entry and exit of every submodule, in the thread that runs it.

    The entry comes before the module's own hooks and the exit after them, so that what these do lies between
    two points as well. The module's own entry is left out, being the start of the thread; its exit separates
    the forward from the gradients.

    Args:
        module: A copy that nobody else uses: the hooks stay on it. Replicas made of it carry them too.
        visit: What to call.
    """
    for path, layer in module.named_modules():
        entry, leave = (Point(event, path, type(layer).__name__) for event in ("entry", "exit"))
        if path:
            layer.register_forward_pre_hook(_Hook(visit, entry), prepend=True)
        layer.register_forward_hook(_Hook(visit, leave))


class _Hook:
    """A hook that passes a point; in a copy or a pickle of its module it does nothing.

    Args:
        visit: What to call.
        point: What to call it with.
    """

    def __init__(self, visit: Callable[[Point], None], point: Point) -> None:
        self._visit = visit
        self._point = point

    def __call__(self, *_: object) -> None:
        self._visit(self._point)

    def __deepcopy__(self, memo: object) -> Callable[..., None]:
        return _silent

    def __reduce__(self) -> tuple[Callable[[], Callable[..., None]], tuple[()]]:
        return _silence, ()


def _silent(*_: object) -> None:
    """Do nothing, where a copied point was."""


def _silence() -> Callable[..., None]:
    return _silent
