"""The points where threads can hand over: the entry and the exit of every submodule."""

from __future__ import annotations

import functools
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
            layer.register_forward_pre_hook(functools.partial(_visit, visit, entry), prepend=True)
        layer.register_forward_hook(functools.partial(_visit, visit, leave))


def _visit(visit: Callable[[Point], None], point: Point, *_: object) -> None:
    visit(point)
