"""Where a block stopped: tensors that cannot be combined, with sizes that would fit, or a layer that raised."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rescli.graph.diagnostics.names import read_structure
from rescli.graph.diagnostics.rule import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rescli.graph.diagnostics.evidence import Evidence, FittingInput
    from rescli.graph.model import Failure, LayerFact, Shape

_ABOUT_SHAPES = re.compile(r"\b(shapes?|sizes?|dim|dimensions?|channels?)\b")


def shape_mismatch(evidence: Evidence) -> Iterator[Finding]:
    """Find the Apply at which the recorded and the current tensor could not be combined."""
    failure = _unexplained_failure(evidence)
    if failure is not None and _is_mismatch(failure):
        yield Finding(failure.path, failure.reason, _what_fits(evidence, failure))


def layer_failed(evidence: Evidence) -> Iterator[Finding]:
    """Find the layer that raised an error."""
    failure = _unexplained_failure(evidence)
    if failure is None or _is_mismatch(failure) or _is_write(failure):
        return
    given = f" on input {failure.input}" if failure.input else ""
    yield Finding(
        failure.path,
        f"{failure.type or 'the block'} failed{given}: {failure.reason}",
        "compare the shape with what the layer takes; --input gives another one"
        if _ABOUT_SHAPES.search(failure.reason)
        else "`rescli show` prints the part of the traceback that lies in your file",
    )


def in_place_write(evidence: Evidence) -> Iterator[Finding]:
    """Find the layer that wrote into a recorded tensor, and is no layer of torch.nn that gets a copy."""
    failure = _unexplained_failure(evidence)
    if failure is not None and _is_write(failure):
        yield Finding(
            failure.path,
            f"{failure.type}: {failure.reason}",
            "or put it behind a layer that makes a new tensor",
        )


def _is_write(failure: Failure) -> bool:
    return failure.error_type == "InPlaceError"


def _unexplained_failure(evidence: Evidence) -> Failure | None:
    """Give what ended the run, unless it is an Apply of which the names tell why."""
    failure = evidence.failure
    if failure is None or failure.path in {place.path for place, _ in read_structure(evidence).unresolved}:
        return None
    return failure


def _is_mismatch(failure: Failure) -> bool:
    recorded, current = failure.recorded_shape, failure.current_shape
    return recorded is not None and current is not None and recorded != current


def _what_fits(evidence: Evidence, failure: Failure) -> str:
    if evidence.fitting is not None:
        return _fitting_input(evidence.fitting)
    recorded, current = failure.recorded_shape or (), failure.current_shape or ()
    own_module = f"give the Apply a projection= of your own that turns {recorded} into {current}"
    apply = next((place for place in evidence.placements if place.path == failure.path), None)
    if apply is not None and apply.has_own_projection:
        return f"let the projection turn {recorded} into {current}"
    if len(recorded) != len(current):
        return own_module
    row = next((row for row in evidence.layers if row.failed), None)
    if row is not None and row.detail == "concat":
        return _joining_sizes(recorded, current)
    if _allows_projection(evidence, row):
        return own_module
    return _bridging_sizes(recorded, current, own_module)


def _fitting_input(fitting: FittingInput) -> str:
    dims = " and ".join(str(dim) for dim in fitting.dims)
    sizes = " and ".join(str(fitting.given[dim]) for dim in fitting.dims)
    shapes = " or ".join(f"--input {'x'.join(map(str, shape))}" for shape in fitting.shapes)
    plural = "s" if len(fitting.dims) > 1 else ""
    return (
        f"take multiples of {fitting.multiple} in dimension{plural} {dims} of the input, not {sizes}: "
        f"{shapes} fits"
    )


def _differing(recorded: Shape, current: Shape) -> list[int]:
    return [dim for dim, (have, want) in enumerate(zip(recorded, current, strict=True)) if have != want]


def _feature_dim(recorded: Shape, current: Shape) -> int:
    """Say which dimension a projection would change: the channels if they differ, else the last."""
    return 1 if len(recorded) >= 3 and recorded[1] != current[1] else len(recorded) - 1


def _sizes_text(recorded: Shape, dims: list[int]) -> str:
    return " and ".join(f"{recorded[dim]} in dimension {dim}" for dim in dims)


def _joining_sizes(recorded: Shape, current: Shape) -> str:
    others = [dim for dim in _differing(recorded, current) if dim != _feature_dim(recorded, current)]
    dims = others or _differing(recorded, current)
    return f"let the layers between end with {_sizes_text(recorded, dims)}"


def _allows_projection(evidence: Evidence, apply: LayerFact | None) -> bool:
    """Say whether the Record that the Apply read has need_projection: then no projection bridges the two."""
    name = apply.record if apply else None
    for row in reversed(evidence.layers):
        if row.kind == "record" and row.record == name:
            return row.detail == "need_projection"
    return False


def _bridging_sizes(recorded: Shape, current: Shape, own_module: str) -> str:
    dim = _feature_dim(recorded, current)
    have, want = recorded[dim], current[dim]
    others = [other for other in _differing(recorded, current) if other != dim]
    if not others:
        return (
            f"let the layers between end with {_sizes_text(recorded, [dim])}, or set need_projection=True "
            f"in the Record: a projection {have} -> {want}"
        )
    steps = {_stride_between(recorded[other], current[other]) for other in others}
    if dim == 1 and min(others) > 1 and len(steps) == 1 and steps != {0}:
        return (
            f"set need_projection=True in the Record: a 1x1 convolution {have} -> {want} "
            f"with stride {steps.pop()}"
        )
    return f"let the layers between end with {_sizes_text(recorded, others)}, or {own_module}"


def _stride_between(have: int, want: int) -> int:
    """Give the stride of a 1x1 convolution from one size to another, which may lose a position; 0 if there is none."""
    for surplus in (0, 1):
        for step in (have // want, -(-have // want)) if want else ():
            if step > 1 and (have - 1) // step + 1 == want + surplus:
                return step
    return 0
