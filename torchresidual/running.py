"""Run a block by its plan, inside a frame that belongs to this one call."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, NoReturn

from torch import Tensor

from torchresidual.blame import complete
from torchresidual.errors import ConfigurationError, InPlaceError, StructureError
from torchresidual.frame import Frame, _context, current_frame
from torchresidual.inplace import Writes
from torchresidual.memory import copied, shares_memory, version_of
from torchresidual.plan import Call
from torchresidual.tracing import is_proxy
from torchresidual.wrappers import split_extras

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchresidual.plan import Plan, Step
    from torchresidual.sequential import ResidualSequential

Arguments = dict[str, dict[str, Any]]

# Looked up once: a member of an enum costs more than the comparison, and there is one per layer and call.
_LAYER, _GUARDED, _ATTENTION, _RECORD = Call.LAYER, Call.GUARDED, Call.ATTENTION, Call.RECORD
_APPLY, _SEARCH, _ENTER = Call.APPLY, Call.SEARCH, Call.ENTER


def run(block: ResidualSequential, plan: Plan, x: Any) -> Any:  # noqa: C901, PLR0912 - one branch a kind of step: a function each would cost a call for every layer
    """Run a block that no hook watches: recorded tensors are written and read by position.

    Args:
        block: Whose forward this is.
        plan: Its plan.
        x: The input.

    Returns:
        The output, or ``(output, extras)`` if there are any.
    """
    values: list[Any] = [None] * len(plan.places)
    extras: list[Any] = []
    step: Step | None = None
    outer_block = getattr(_context, "current_sequential", None)
    _context.current_sequential = block
    # Only where somebody looks a tensor up by name.
    frame = _open_frame(block, plan) if plan.publishes else None
    try:
        for step in plan.steps:
            call = step.call
            if call is _LAYER:
                x = step.module(x)
                if type(x) is not Tensor and step.key:
                    x = split_extras(x, extras)
            elif call is _RECORD:
                if step.kept:
                    values[step.place] = x
                if frame is not None:
                    place = plan.places[step.place]
                    frame.show(place.record, place.name, x, place.path)
            elif call is _APPLY:
                x = step.module.combine(x, values[step.place], step.projects)  # type: ignore[operator]
            else:
                x = _run_rare(step, plan, values, x, extras)
            if step.releases:
                if frame is None:
                    for released in step.releases:
                        values[released] = None
                else:
                    _release(step, plan, values, frame)
    except Exception as error:
        if step is not None:
            complete(error, plan, step, block)
        raise
    finally:
        _context.current_sequential = outer_block
        if frame is not None:
            _context.frame = frame.parent
    return (x, extras) if extras else x


def run_watched(
    block: ResidualSequential, plan: Plan, x: Any, hidden: Any, module_kwargs: Mapping[str, Mapping[str, Any]]
) -> Any:
    """Run a block where hooks watch, or with keyword arguments: Records and Applies are called as modules.

    Args:
        block: Whose forward this is.
        plan: Its plan.
        x: The input.
        hidden: For the direct RecurrentWrappers.
        module_kwargs: Keyword arguments of direct children.

    Returns:
        As ``run``.
    """
    arguments = _arguments_of(plan, hidden, module_kwargs)
    extras: list[Any] = []
    outer_block = getattr(_context, "current_sequential", None)
    _context.current_sequential = block
    frame = _open_frame(block, plan)
    values: list[Any] = [None] * len(plan.places)
    position = 0
    try:
        while position < len(plan.steps):
            step = plan.steps[position]
            try:
                x = split_extras(_call_watched(step, plan, frame, values, x, arguments), extras)
            except Exception as error:
                complete(error, plan, step, block)
                raise
            end = step.end if step.call is _ENTER else position
            _note_ended(plan.steps[position : end + 1], plan, values, frame)
            position = end + 1
    finally:
        _context.current_sequential = outer_block
        _context.frame = frame.parent
    return (x, extras) if extras else x


def _open_frame(block: ResidualSequential, plan: Plan) -> Frame:
    """Make a frame for this call and put it where modules inside can find it."""
    frame = _context.frame = Frame(block, plan, getattr(_context, "frame", None))
    return frame


def _run_rare(step: Step, plan: Plan, values: list[Any], x: Any, extras: list[Any]) -> Any:
    """Run a step of one of the kinds that most blocks do not have."""
    if step.call is _SEARCH:
        return step.module(x)
    if step.call is _GUARDED:
        x = call_guarded(step, live_values(step, plan, values, current_frame()), x, {})
    elif step.call is _ATTENTION:
        x = _call_attention(step, x, {})
    # Inside a nested container a tuple goes on whole, as in any nn.Sequential; at its end it is taken apart.
    return split_extras(x, extras) if step.key and step.call is not _ENTER else x


def _call_watched(
    step: Step, plan: Plan, frame: Frame, values: list[Any], x: Any, arguments: Arguments
) -> Any:
    """Call what stands at a step as a module, so that its hooks run."""
    if step.call is _GUARDED:
        return call_guarded(step, live_values(step, plan, values, frame), x, arguments)
    if step.call is _ENTER:
        return step.module(_shielded(step, plan, values, frame, x))
    if step.call not in (_RECORD, _APPLY, _SEARCH):
        return call_layer(step, x, arguments)
    frame.path = step.path
    try:
        return step.module(x)
    finally:
        frame.path = None


def _shielded(enter: Step, plan: Plan, values: list[Any], frame: Frame, x: Any) -> Any:
    """Return what a container that is called as a whole may take: a copy where it would write into a record."""
    steps = plan.steps
    position = next(i for i, step in enumerate(steps) if step is enter)
    for step in steps[position : enter.end]:
        if step.call is _ATTENTION:
            _refuse_attention(step)
        if step.call is _GUARDED and _must_copy(step, live_values(step, plan, values, frame), x):
            return copied(x)
    return x


def _note_ended(ended: list[Step], plan: Plan, values: list[Any], frame: Frame) -> None:
    """Bring places up to date after modules that recorded and read by name."""
    released = {place for step in ended for place in step.releases}
    recorded = [step for step in ended if step.call is _RECORD and step.place not in released]
    for step in recorded:
        if step.kept:
            entry = frame.visible.get(plan.places[step.place].name)
            values[step.place] = None if entry is None else entry.tensor  # None: its forward was patched away
    # A Record that stands in several places may have run anew: what is visible is its latest tensor.
    anew = {id(step.module) for step in recorded}
    for place in released:
        values[place] = None
        if id(plan.places[place].record) not in anew:
            frame.forget(plan.places[place])


def _release(step: Step, plan: Plan, values: list[Any], frame: Frame | None) -> None:
    """Let go of the tensors whose last reader this step was."""
    for place in step.releases:
        values[place] = None
        if frame is not None:
            frame.forget(plan.places[place])


def call_layer(step: Step, x: Any, arguments: Arguments) -> Any:
    """Call a layer with x and its keyword arguments, or self-attention with x three times."""
    keywords = arguments.get(step.key, {})
    return _call_attention(step, x, keywords) if step.attention else step.module(x, **keywords)


def _call_attention(step: Step, x: Any, keywords: dict[str, Any]) -> Any:
    """Call self-attention: x is query, key and value, unless keywords bring others."""
    if step.attention != step.path or not step.key:
        _refuse_attention(step)
    keywords = {"need_weights": False, **keywords}
    key = keywords.pop("key", x)
    output = step.module(x, key, keywords.pop("value", key), **keywords)
    return output[0] if is_proxy(output) else output  # torch.fx does not say that it is a tuple


def _refuse_attention(step: Step) -> NoReturn:
    error = StructureError(
        "a plain nn.Sequential calls it with x alone, but attention wants query, key and value; put it directly "
        "into the block, or into a nested ResidualSequential",
        subject="MultiheadAttention",
    )
    error.origin = step.module.get_submodule(step.attention.removeprefix(step.path).removeprefix("."))
    raise error


def live_values(step: Step, plan: Plan, values: list[Any], frame: Frame | None) -> list[tuple[str, Any]]:
    """Return the recorded tensors, with their names, that are still needed while a step runs."""
    live = [(plan.places[place].name, values[place]) for place in step.live if values[place] is not None]
    if plan.publishes and frame is not None:
        # Those of Records inside layers of the user's own: no plan knows when they are read.
        live += [(e.name, e.tensor) for e in frame.visible.values() if id(e.record) not in plan.names]
    return live


def _must_copy(step: Step, live: list[tuple[str, Any]], x: Any) -> bool:
    """Say whether a step's input needs a copy: it would be written over, or nobody could tell that it was."""
    in_place = step.writes is Writes.IN_PLACE
    return any((in_place or version_of(value) is None) and shares_memory(x, value) for _, value in live)


def call_guarded(step: Step, live: list[tuple[str, Any]], x: Any, arguments: Arguments) -> Any:
    """Call a layer that may write into its input, so that no recorded tensor changes.

    Args:
        step: Where the layer stands.
        live: The recorded tensors that are still needed, with their names.
        x: The current tensor.
        arguments: Keyword arguments of direct children.

    Raises:
        InPlaceError: If the layer changed one of them.
    """
    if _must_copy(step, live, x):
        x = copied(x)
    versions = [version_of(value) for _, value in live]
    output = call_layer(step, x, arguments)
    for version, (name, value) in zip(versions, live, strict=True):
        if version_of(value) != version:
            refuse_written_over(step, name)
    return output


def unshared(x: Any, live: tuple[Any, ...]) -> Any:
    """Return what a layer may write into: x, or a copy where it shares memory with a recorded tensor."""
    return copied(x) if any(shares_memory(x, value) for value in live) else x


def refuse_written_over(step: Step, name: str) -> NoReturn:
    """Say that the layer at a step changed a recorded tensor."""
    raise InPlaceError(
        f"it changed the tensor recorded as {name!r} in place; let it make a new tensor (x = x + 1, not x += 1)",
        subject=type(step.module).__name__,
    )


def _arguments_of(plan: Plan, hidden: Any, module_kwargs: Mapping[str, Mapping[str, Any]]) -> Arguments:
    """Return the keyword arguments of each direct child that gets any."""
    layers = {
        step.key: step for step in plan.steps if step.key and step.call in (_LAYER, _GUARDED, _ATTENTION)
    }
    arguments: Arguments = {}
    if hidden is not None:
        arguments = {key: {"hidden": hidden} for key, step in layers.items() if step.wrapped}
        if not arguments:
            raise ConfigurationError(
                "the second argument is the hidden state of RecurrentWrappers, and none is a direct child of the "
                "block; other arguments go by the name of the layer: block(x, **{'1': {'attn_mask': mask}})",
                subject="forward",
            )
    for key, keywords in module_kwargs.items():
        if key not in layers:
            known = ", ".join(repr(name) for name in layers) or "none"
            close = difflib.get_close_matches(key, layers, n=1)
            meant = f"did you mean {close[0]!r}? " if close else ""
            raise ConfigurationError(
                f"{key!r} is no layer of this block. {meant}Keyword arguments go to a direct child by its name, as "
                f"block(x, **{{'1': {{'attn_mask': mask}}}}); layers: {known}",
                subject="forward",
            )
        if not isinstance(keywords, dict):
            raise ConfigurationError(
                f"{key}= must be a dict of keyword arguments for layer {key!r}, as {{'attn_mask': mask}}; found "
                f"{type(keywords).__name__}",
                subject="forward",
            )
        arguments[key] = {**arguments.get(key, {}), **keywords}
    return arguments
