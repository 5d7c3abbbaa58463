"""Run a block while ``torch.compile`` or ``torch.export`` traces it.

The frame is handed on as an argument and nested blocks are walked from here, so that no thread-local is written: a
compiler would guard on it, and compile anew when an attribute that was missing is there. Only around a layer of the
user's own that holds a Record or Apply the frame is put where that layer finds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from torchresidual.frame import Frame, _context
from torchresidual.plan import Call
from torchresidual.running import call_guarded, call_layer, live_values
from torchresidual.structure import Scope, direct_markers
from torchresidual.wrappers import split_extras

if TYPE_CHECKING:
    from torchresidual.apply import Apply
    from torchresidual.plan import Plan, Step
    from torchresidual.sequential import ResidualSequential


def run_traced(block: ResidualSequential, plan: Plan, x: Any, outer: Frame | None) -> Any:
    """Run a block that is being traced.

    Args:
        block: Whose forward this is.
        plan: Its plan.
        x: The input.
        outer: The frame of the enclosing block, or None.

    Returns:
        The output, or ``(output, extras)`` if there are any.
    """
    frame = Frame(block, plan, outer)
    values: list[Any] = [None] * len(plan.places)
    extras: list[Any] = []
    for step in plan.steps:
        if step.call is Call.RECORD:
            values[step.place] = x
            place = plan.places[step.place]
            frame.show(place.record, place.name, x, place.path)
        elif step.call is Call.APPLY:
            x = cast("Apply", step.module).combine(x, values[step.place], step.projects)
        elif step.call is Call.SEARCH:
            apply = cast("Apply", step.module)
            entry = apply.find_recorded(frame)
            x = apply.combine(x, entry.tensor, entry.record.need_projection)
        else:
            if step.call not in (Call.ENTER, Call.LEAVE):
                x = _call(step, plan, values, x, frame)
            if step.key:
                x = split_extras(x, extras)
    return (x, extras) if extras else x


def _call(step: Step, plan: Plan, values: list[Any], x: Any, frame: Frame) -> Any:
    """Call a layer; a nested block is walked from here, with this frame around its own."""
    module = step.module
    if isinstance(module, Scope) and module.plain and step.call is Call.LAYER:
        return module.run_inside(x, frame)
    if not plan.publishes or not any(True for _ in direct_markers(module)):
        return (
            call_guarded(step, live_values(step, plan, values, frame), x, {})
            if step.call is Call.GUARDED
            else call_layer(step, x, {})
        )
    outside = getattr(_context, "frame", None)
    _context.frame = frame
    try:
        return call_layer(step, x, {})
    finally:
        _context.frame = outside
