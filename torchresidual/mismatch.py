"""Say why an Apply cannot combine what it has, and what to change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchresidual.bridging import bridge_between, feature_dim
from torchresidual.errors import ShapeError, UnknownRecordError

if TYPE_CHECKING:
    from torch import Size, Tensor

    from torchresidual.apply import Apply
    from torchresidual.frame import Frame


def broadcasts(shape: Size, target: Size) -> bool:
    """Say whether a tensor of ``shape`` broadcasts to ``target`` without growing it."""
    if len(shape) > len(target):
        return False
    return all(a in (1, b) for a, b in zip(reversed(shape), reversed(target), strict=False))


def unknown_record(apply: Apply, frame: Frame) -> UnknownRecordError:
    """Return the error for an Apply that finds no Record.

    Args:
        apply: The Apply.
        frame: The frame of the call that is running.
    """
    name = apply.record_name
    wanted = f"a Record named {name!r}" if name else "a Record"
    names = frame.names()
    known = ", ".join(repr(each) for each in names) or "none"
    reason = f"{wanted} must run before it, in this block or an enclosing one; Records there: {known}"
    if name in names or (name is None and names):
        which = f"the one named {name!r}" if name else f"{known} of this block"
        reason = f"{wanted} must run before it; {which} stands behind it: move it in front"
    return UnknownRecordError(reason, subject=repr(apply))


def not_combined(
    apply: Apply, x: Tensor, recorded: Tensor, projected: Tensor, need_projection: bool
) -> ShapeError:
    """Return the error for a recorded tensor that does not fit the current one.

    Args:
        apply: The Apply.
        x: The current tensor.
        recorded: The recorded tensor.
        projected: The recorded tensor after its projection, if it has one.
        need_projection: Whether the Record allows one.
    """
    shapes = f"recorded {tuple(recorded.shape)}, current {tuple(x.shape)}"
    if apply.projection_given:
        reason = f"the given projection makes {tuple(projected.shape)} of it: {shapes}; make its output as large as x"
    else:
        grows = broadcasts(x.shape, recorded.shape)
        why = "x would be grown by broadcasting" if grows else "shapes differ"
        way_out = "set need_projection=True in the Record, or make the sizes equal"
        if need_projection and apply.projection_layer is None:
            way_out = (
                "there is no projection, since need_projection was set after the block was made or its layers tell the "
                "same size; call block.materialize(example)"
            )
        if not _can_be_projected(apply, x, recorded):
            way_out = (
                "no projection bridges that, it maps features with the stride of the branch: keep the other sizes in "
                "between (padding=), or pass projection= with a module of your own"
            )
        reason = f"{why}: {shapes}; {way_out}"
    return ShapeError(reason, subject=repr(apply))


def not_joined(apply: Apply, x: Tensor, r: Tensor, dim: int) -> ShapeError:
    """Return the error for two tensors that cannot be concatenated.

    Args:
        apply: The Apply.
        x: The current tensor.
        r: The recorded tensor, after its projection if it has one.
        dim: The dimension along which.
    """
    along = dim % x.dim() if -x.dim() <= dim < x.dim() else dim
    return ShapeError(
        f"cannot concat current {tuple(x.shape)} with recorded {tuple(r.shape)} along dimension {along}: all other "
        f"sizes must agree; {_what_fits(x, r, along)}",
        subject=repr(apply),
    )


def _can_be_projected(apply: Apply, x: Tensor, recorded: Tensor) -> bool:
    try:
        return bridge_between(x.shape, recorded.shape, feature_dim(apply, x, recorded), subject="").needed
    except (ShapeError, IndexError):
        return False


def _what_fits(x: Tensor, r: Tensor, dim: int) -> str:
    """Say what to change; a size that comes back short has lost a remainder on its way down."""
    pairs = zip(x.shape, r.shape, strict=False)
    off = dict.fromkeys((b, a) for i, (a, b) in enumerate(pairs) if i not in (0, dim) and a < b)
    if x.dim() != r.dim() or not off:
        return "pass dim= if the features lie elsewhere"
    lost = " and ".join(f"{recorded} came back as {current}" for recorded, current in off)
    return (
        f"{lost}: sizes at the Record must be a multiple of the stride in between (pad or crop the input), and layers "
        "in between must keep them (padding=)"
    )
