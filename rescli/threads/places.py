"""The layers that a forward runs, in order: where a scenario can step in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rescli.threads.copies import IncomparableError, copy_module
from rescli.threads.outcome import call
from rescli.threads.points import install_points

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor, nn

    from rescli.threads.result import Point


def layers_that_run(module: nn.Module, inputs: Sequence[Tensor]) -> tuple[str, ...]:
    """Name the layers that a forward runs by their paths, each once, in the order in which they begin.

    Args:
        module: The module; a copy of it runs.
        inputs: What it is called with.

    Raises:
        IncomparableError: It runs none.
    """
    passed: list[Point] = []
    copied = copy_module(module)
    install_points(copied, passed.append)
    call(copied, inputs)
    paths = dict.fromkeys(point.path for point in passed if point.event == "entry")
    if not paths:
        raise IncomparableError("forward calls no layer, so there is no place within it")
    return tuple(paths)


def some_of(paths: Sequence[str], most: int) -> tuple[str, ...]:
    """Choose the last one and others at equal distances.

    Args:
        paths: In the order in which they run.
        most: How many to choose at most.

    Example:
        >>> some_of(["0", "1", "2", "3", "4"], 2)
        ('1', '4')
    """
    number = min(most, len(paths))
    return tuple(paths[(index + 1) * len(paths) // number - 1] for index in range(number))
