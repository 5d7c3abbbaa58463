"""Complete an error on its way out of a block: where it happened, and what the layers around it suggest."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from torch import nn

from torchresidual.errors import NestingError, ResidualError, ShapeError
from torchresidual.plan import Call
from torchresidual.wrappers import RecurrentWrapper

if TYPE_CHECKING:
    from torchresidual.plan import Plan, Step

_MANY_LEVELS = 20


def complete(error: Exception, plan: Plan, step: Step, block: nn.Module) -> None:
    """Put the place of a step in front of an error's path, and advice behind its reason.

    An error of torch's or of the user's own gets the place as a note, where Python has notes (from 3.11).

    Args:
        error: What was raised while the step ran.
        plan: The plan of the block.
        step: The step.
        block: The block; to the blocks around it, the error comes from there.

    Raises:
        NestingError: In place of a RecursionError that has come through many blocks.
    """
    if isinstance(error, NestingError):
        return
    if isinstance(error, RecursionError):
        _blame_nesting(error)
        return
    if not isinstance(error, ResidualError):
        if hasattr(error, "add_note"):
            error.add_note(f"in a {type(block).__name__}, at '{step.path}': {type(step.module).__name__}")
        return
    if step.call is Call.APPLY and not error.path:
        error.record = plan.places[step.place].name
    if isinstance(error, ShapeError) and step.call in (Call.APPLY, Call.SEARCH):
        error.reason += _advice_on(_layer_before(plan, step))
    # From inside a container that was called as a whole, or a layer of the user's own.
    inside = (path for path, module in step.module.named_modules() if module is error.origin)
    error.enter(next(inside, ""))
    error.enter(step.path)
    error.origin = block


def nested_too_deep() -> NestingError:
    """Return the error for blocks that are nested deeper than Python can call."""
    return NestingError(
        f"blocks are nested deeper than Python can call: each takes about 5 of its {sys.getrecursionlimit()} frames; "
        "nest less deep, or call sys.setrecursionlimit(...) with 10 times the depth",
        subject="ResidualSequential",
    )


def _blame_nesting(error: RecursionError) -> None:
    """Say that blocks are nested too deep, once an error has come through so many that no layer's own is likely."""
    levels = getattr(error, "levels", 0) + 1
    error.levels = levels  # type: ignore[attr-defined]  # counted on the error: a block does not know its depth
    if levels >= _MANY_LEVELS:
        raise nested_too_deep() from error


def _layer_before(plan: Plan, step: Step) -> nn.Module | None:
    """Return the layer that decides how many features reach a step; activations and dropout do not."""
    position = next(i for i, one in enumerate(plan.steps) if one is step)
    layers = (one.module for one in reversed(plan.steps[:position]) if one.call in (Call.LAYER, Call.GUARDED))
    return next((layer for layer in layers if any(True for _ in layer.parameters())), None)


def _advice_on(layer: nn.Module | None) -> str:
    """Say which hidden size fits, where a bidirectional layer has doubled the features."""
    if isinstance(layer, RecurrentWrapper):
        layer = layer.module
    if not (isinstance(layer, nn.RNNBase) and layer.bidirectional and not layer.proj_size):
        return ""
    wanted, width = layer.input_size, 2 * layer.hidden_size
    if wanted == width or wanted % 2:
        return ""
    return (
        f"; the bidirectional {type(layer).__name__} gives 2 x {layer.hidden_size} = {width} features, with "
        f"hidden_size={wanted // 2} it gives {wanted}"
    )
