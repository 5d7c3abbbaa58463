"""What an Apply does at run time to make the recorded tensor fit: project it, or open the highway gates.

Construction settles sizes and the feature dimension wherever the layers tell. Here the shapes of a real call settle
what was left open.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import torch

from torchresidual.errors import ShapeError, UnsettledError
from torchresidual.operations import along
from torchresidual.projection import SETTLING, Bridge, Unsettled, settle
from torchresidual.tracing import is_compiling, is_fake, is_proxy, is_transformed

if TYPE_CHECKING:
    from torch import Size, Tensor, nn

    from torchresidual.apply import Apply


def feature_dim(apply: Apply, x: Tensor, r: Tensor) -> int:
    """Return the dimension along which features lie.

    Args:
        apply: Its ``dim`` wins; else what the layers around it told at construction.
        x: The current tensor.
        r: The recorded one. Where nothing told, channels come first only if dimension 1 is what differs.

    Raises:
        ShapeError: If x has no such dimension.
        UnsettledError: If only shapes would tell, and there are none while a graph is traced.
    """
    dim = apply.settled_dim if apply.dim is None else apply.dim
    if is_proxy(x):
        if dim is not None:
            return dim
        raise UnsettledError(
            "its feature dimension is told by nothing but the shapes of a call; pass dim=",
            subject=repr(apply),
        )
    if dim is None:
        dim = guessed_dim(x.shape, r.shape)
    if not -x.dim() <= dim < x.dim():
        raise ShapeError(
            f"features lie in dimension {dim}, which is not there: recorded {tuple(r.shape)}, current "
            f"{tuple(x.shape)}; pass a dim= that is",
            subject=repr(apply),
        )
    return dim


def guessed_dim(x: Size, r: Size) -> int:
    """Return the feature dimension that two shapes suggest: 1 if it differs and there are three or more, else -1."""
    return 1 if len(x) == len(r) >= 3 and x[1] != r[1] else -1


def bridged(apply: Apply, x: Tensor, r: Tensor) -> Tensor:
    """Return the recorded tensor after its projection, if it needs one.

    Args:
        apply: Whose projection it is.
        x: The current tensor.
        r: The recorded one.
    """
    layer = apply.projection_layer
    if layer is None:
        return r
    if apply.projection_given:
        return cast("Tensor", layer(r))
    if type(layer) is Unsettled:
        _refuse_to_settle(apply, x)
    dim = feature_dim(apply, x, r)
    if type(layer) is Unsettled:
        settled = _settle_projection(apply, layer, x, r, dim)
        if settled is None:
            return r
        layer = settled
    projected = _projected(apply, layer, r, dim)
    return projected if is_proxy(x) or projected.shape == x.shape else _cropped(projected, x, dim)


def _projected(apply: Apply, layer: nn.Module, r: Tensor, dim: int) -> Tensor:
    """Return what an inserted projection makes of the recorded tensor."""
    try:
        return along(layer, r, dim)
    except RuntimeError as error:
        made_for, found = layer._parameters["weight"], tuple(r.shape)
        if made_for is None or not -len(found) <= dim < len(found) or found[dim] == made_for.shape[1]:
            raise
        raise ShapeError(
            f"its projection was made for {made_for.shape[1]} features and the recorded tensor {found} has "
            f"{found[dim]} in dimension {dim}; where the same Apply stands in several places of other sizes, give each "
            "place one of its own",
            subject=repr(apply),
        ) from error


def gated_by(apply: Apply, x: Tensor, r: Tensor) -> Tensor:
    """Return the highway of two tensors, ``T * x + C * r``."""
    gates = apply.gate_layer
    if gates is None:
        raise UnsettledError(
            "its gates do not exist: they are made by the ResidualSequential that it is put into; where its operation "
            "was changed since, call block.materialize(example)",
            subject=repr(apply),
        )
    # By name: 0.1.0 pickled its gates in an nn.ModuleDict.
    transform_gate, carry_gate = gates.get_submodule("transform_gate"), gates.get_submodule("carry_gate")
    unsettled = type(transform_gate) is Unsettled or type(carry_gate) is Unsettled
    if unsettled:
        _refuse_to_settle(apply, x)
    dim = feature_dim(apply, x, x)
    if unsettled:
        bridge = Bridge(x.shape[dim], x.shape[dim], _spatial_of(dim, x.dim()))
        for gate in (transform_gate, carry_gate):
            settle(cast("Unsettled", gate), bridge)
    # One product after the other: two gates at once would hold two tensors more at the peak.
    weighed = torch.sigmoid(along(transform_gate, x, dim)) * x
    return weighed + torch.sigmoid(along(carry_gate, r, dim)) * r


def _settle_projection(apply: Apply, layer: Unsettled, x: Tensor, r: Tensor, dim: int) -> nn.Module | None:
    """Settle a projection from the shapes of a call; None if it turns out that there is nothing to bridge."""
    bridge = bridge_between(x.shape, r.shape, dim, subject=repr(apply))
    if bridge.spatial is not None and layer.stride is not None:
        # The layers tell the stride: one that was read off the first input might not fit the next.
        bridge = replace(bridge, stride=layer.stride)
    with SETTLING:
        if apply.projection_layer is None:  # another thread found that nothing is needed
            return None
        if bridge.needed:
            settle(layer, bridge)
        else:
            apply.projection_layer = None
        return apply.projection_layer


def bridge_between(x: Size, r: Size, dim: int, *, subject: str) -> Bridge:
    """Return the bridge from a recorded shape to a current one.

    Args:
        x: The current shape.
        r: The recorded shape.
        dim: The feature dimension.
        subject: What an error is about.

    Raises:
        ShapeError: If no Linear and no strided 1x1 convolution leads from one to the other.
    """
    shapes = f"recorded {tuple(r)}, current {tuple(x)}"
    if len(x) != len(r):
        raise ShapeError(f"the number of dimensions differs: {shapes}; pass projection=", subject=subject)
    spatial = _spatial_of(dim, len(x))
    features = dim % len(x)
    first_spatial = len(x) - (spatial or 0)
    stride = []
    for position, (have, want) in enumerate(zip(r, x, strict=True)):
        if position == features:
            continue
        if spatial is not None and position >= first_spatial:
            stride.append(_stride_between(have, want, shapes, subject))
        elif have not in (want, 1):
            raise ShapeError(
                f"sizes differ in dimension {position}, which holds no features: {shapes}; pass projection= or dim=",
                subject=subject,
            )
    steps = tuple(stride) if any(step != 1 for step in stride) else ()
    return Bridge(r[features], x[features], spatial, steps)


def _stride_between(have: int, want: int, shapes: str, subject: str) -> int:
    if have in (want, 1):
        return 1
    if want > have:
        raise ShapeError(
            f"the branch is larger than the recorded tensor: {shapes}; an upsampling skip needs a module of your own: "
            "pass projection=",
            subject=subject,
        )
    # Without padding the branch may be a position shorter than a strided 1x1 convolution: the surplus is cropped.
    for surplus in (0, 1):
        for step in (have // want, -(-have // want)):
            if (have - 1) // step + 1 == want + surplus:
                return step
    raise ShapeError(
        f"no stride leads from {have} to {want} positions: {shapes}; pass projection=", subject=subject
    )


def _spatial_of(dim: int, rank: int) -> int | None:
    """Return how many spatial dimensions follow the channels, or None where a Linear is meant."""
    features = dim % rank
    behind = rank - features - 1
    return behind if features <= 1 and 1 <= behind <= 3 and rank >= 2 and dim != -1 else None


def _cropped(projected: Tensor, x: Tensor, dim: int) -> Tensor:
    """Drop what a strided skip has beyond the branch: an unpadded convolution loses a position at the end."""
    if projected.dim() != x.dim():
        return projected
    for position in range(dim % x.dim() + 1, x.dim()):
        surplus = projected.shape[position] - x.shape[position]
        if surplus == 1:
            projected = projected.narrow(position, 0, x.shape[position])
    return projected


def _refuse_to_settle(apply: Apply, x: object) -> None:
    """Raise where filling parameters would be lost or would break what is being traced."""
    where = ""
    if torch.compiler.is_dynamo_compiling():
        # Dynamo can only show what a plain exception says; the errors of this library it cannot trace.
        raise RuntimeError(
            "sizes are not settled yet: call block.materialize(example) before compile or export"
        )
    if is_proxy(x):
        where = "while torch.fx traces"
    elif getattr(apply, "_is_replica", False):
        where = "in a DataParallel replica, where it would be lost"
    elif is_compiling():
        where = "while the block is exported"
    elif is_fake(x):
        where = "under FakeTensorMode, which has no values for them"
    elif is_transformed(x):
        where = "inside a transform of torch.func, where it would be lost"
    if where:
        raise UnsettledError(
            f"its sizes are not settled yet and cannot be {where}; call block.materialize(example) first",
            subject=repr(apply),
        )
