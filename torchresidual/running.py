"""Run a block by its plan, inside a frame that belongs to this one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from torchresidual.errors import ConfigurationError, InPlaceError, ResidualError, StructureError
from torchresidual.frame import Frame, _context
from torchresidual.inplace import Writes
from torchresidual.memory import copied, shares_memory, version_of
from torchresidual.plan import Call
from torchresidual.wrappers import split_extras

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchresidual.plan import Plan, Step
    from torchresidual.sequential import ResidualSequential

Arguments = dict[str, dict[str, Any]]

# Looked up once: a member of an enum costs more than the comparison, and there is one per layer and call.
_LAYER, _GUARDED, _RECORD, _APPLY = Call.LAYER, Call.GUARDED, Call.RECORD, Call.APPLY
_SEARCH, _ENTER = Call.SEARCH, Call.ENTER


def run(
    block: ResidualSequential,
    plan: Plan,
    x: Any,
    hidden: Any,
    module_kwargs: Mapping[str, Mapping[str, Any]],
) -> Any:
    """Run a block and return its output, with extras if there are any.

    Args:
        block: Whose forward this is.
        plan: Its plan.
        x: The input.
        hidden: For the direct RecurrentWrappers.
        module_kwargs: Keyword arguments of direct children.
    """
    arguments = _arguments_of(plan, hidden, module_kwargs) if hidden is not None or module_kwargs else {}
    outer_block = getattr(_context, "current_sequential", None)
    outer_frame = getattr(_context, "frame", None)
    frame = Frame(block, outer_frame, len(plan.places))
    _context.current_sequential = block
    _context.frame = frame
    extras: list[Any] = []
    try:
        runner = _run_observed if _has_hooks(plan) else _run_steps
        x = runner(plan, frame, x, extras, arguments)
    finally:
        _context.current_sequential = outer_block
        _context.frame = outer_frame
    return (x, extras) if extras else x


def _run_steps(  # noqa: C901 - one branch a kind of step: a function each would cost a call for every layer
    plan: Plan, frame: Frame, x: Any, extras: list[Any], arguments: Arguments
) -> Any:
    """Run a plan, reading and writing the frame by position."""
    values, publishes = frame.values, plan.publishes
    step: Step | None = None
    try:
        for step in plan.steps:
            call = step.call
            if call is _LAYER:
                x = _call_layer(step, x, arguments)
                if type(x) is not Tensor and step.key:
                    x = split_extras(x, extras)
            elif call is _RECORD:
                if step.kept:
                    values[step.place] = x
                if publishes:
                    place = plan.places[step.place]
                    frame.show(place.record, place.name, x, place.path)
            elif call is _APPLY:
                x = _combine(step, plan, values, x)
            else:
                x = _run_rare(step, plan, frame, x, extras, arguments)
            if step.releases:
                _release(step, plan, frame)
    except ResidualError as error:
        if step is not None:
            error.enter(step.path)
        raise
    return x


def _run_rare(step: Step, plan: Plan, frame: Frame, x: Any, extras: list[Any], arguments: Arguments) -> Any:
    """Run a step of one of the kinds that most blocks do not have."""
    if step.call is _SEARCH:
        return step.module(x)
    if step.call is _GUARDED:
        x = _call_guarded(step, plan, frame.values, x, arguments)
    # Inside a nested container a tuple goes on whole, as in any nn.Sequential; at its end it is taken apart.
    return split_extras(x, extras) if step.key and step.call is not _ENTER else x


def _run_observed(plan: Plan, frame: Frame, x: Any, extras: list[Any], arguments: Arguments) -> Any:
    """Run a plan where hooks watch: Records, Applies and nested containers are called as modules."""
    steps = plan.steps
    position = 0
    while position < len(steps):
        step = steps[position]
        ended = [step]
        try:
            if step.call is _ENTER:
                ended = steps[position : step.end + 1]
                x = split_extras(step.module(x), extras)
            elif step.call in (_RECORD, _APPLY, _SEARCH):
                frame.path = step.path
                x = step.module(x)
            elif step.call is _GUARDED:
                x = split_extras(_call_guarded(step, plan, frame.values, x, arguments), extras)
            else:
                x = split_extras(_call_layer(step, x, arguments), extras)
        except ResidualError as error:
            error.enter(step.path)
            raise
        finally:
            frame.path = None
        for done in ended:
            if done.call is _RECORD and done.kept:
                entry = frame.visible.get(plan.places[done.place].name)
                frame.values[done.place] = None if entry is None else entry.tensor
            _release(done, plan, frame)
        position += len(ended)
    return x


def _combine(step: Step, plan: Plan, values: list[Any], x: Any) -> Any:
    """Run an Apply on the tensor at its place, letting go of it first where this is its last reader."""
    place = step.place
    recorded = values[place]
    if place in step.releases:
        values[place] = None
    record = plan.places[place].record
    return step.module.combine(x, recorded, need_projection=record.need_projection)  # type: ignore[operator]


def _release(step: Step, plan: Plan, frame: Frame) -> None:
    """Let go of the tensors whose last reader this step was."""
    for place in step.releases:
        frame.values[place] = None
        if frame.visible:
            frame.forget(plan.places[place])


def _call_layer(step: Step, x: Any, arguments: Arguments) -> Any:
    """Call a layer with x, or self-attention with x three times."""
    if arguments or step.attention or step.misplaced:
        return _call_with(step, x, arguments.get(step.key, {}))
    return step.module(x)


def _call_with(step: Step, x: Any, keywords: dict[str, Any]) -> Any:
    if step.misplaced:
        error = StructureError(
            "a plain nn.Sequential calls it with x alone, but attention wants query, key and value; put it directly "
            "into the block, or into a nested ResidualSequential",
            subject="MultiheadAttention",
        )
        error.enter(step.misplaced.removeprefix(step.path).removeprefix("."))
        raise error
    if not step.attention:
        return step.module(x, **keywords)
    keywords = {"need_weights": False, **keywords}
    key = keywords.pop("key", x)
    return step.module(x, key, keywords.pop("value", key), **keywords)


def _call_guarded(step: Step, plan: Plan, values: list[Any], x: Any, arguments: Arguments) -> Any:
    """Call a layer that may write into its input, so that no recorded tensor changes."""
    live = [(place, values[place]) for place in step.live if values[place] is not None]
    versions = [version_of(value) for _, value in live]
    in_place = step.writes is Writes.IN_PLACE
    if any(
        (in_place or version is None) and shares_memory(x, value)
        for version, (_, value) in zip(versions, live, strict=True)
    ):
        x = copied(x)
    output = _call_layer(step, x, arguments)
    for version, (place, value) in zip(versions, live, strict=True):
        if version_of(value) != version:
            raise InPlaceError(
                f"it changed the tensor recorded as {plan.places[place].name!r} in place; let it make a new tensor "
                "(x = x + 1, not x += 1)",
                subject=type(step.module).__name__,
            )
    return output


def _arguments_of(plan: Plan, hidden: Any, module_kwargs: Mapping[str, Mapping[str, Any]]) -> Arguments:
    """Return the keyword arguments of each direct child that gets any."""
    layers = {step.key: step for step in plan.steps if step.key and step.call in (_LAYER, _GUARDED)}
    arguments: Arguments = {}
    if hidden is not None:
        arguments = {key: {"hidden": hidden} for key, step in layers.items() if step.wrapped}
        if not arguments:
            raise ConfigurationError(
                "hidden was given, but no RecurrentWrapper is a direct child of the block", subject="forward"
            )
    for key, keywords in module_kwargs.items():
        if key not in layers:
            known = ", ".join(repr(name) for name in layers) or "none"
            raise ConfigurationError(
                f"no layer {key!r} takes keyword arguments here; direct children that do: {known}",
                subject="forward",
            )
        if not isinstance(keywords, dict):
            raise ConfigurationError(
                f"{key}= must be a dict of keyword arguments for layer {key!r}, found {keywords!r}",
                subject="forward",
            )
        arguments[key] = {**arguments.get(key, {}), **keywords}
    return arguments


def _has_hooks(plan: Plan) -> bool:
    """Say whether any Record, Apply or nested container is watched by a hook."""
    if torch_module._has_any_global_hook():  # type: ignore[no-untyped-call]  # torch leaves it so
        return True
    return any(_is_hooked(module) for module in plan.markers)


def _is_hooked(module: nn.Module) -> bool:
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
    )
