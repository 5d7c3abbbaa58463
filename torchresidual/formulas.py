"""How one Apply is written down as a Python expression, for forwards written out as source.

An expression stands behind a condition under which it gives what ``Apply.combine`` gives; elsewhere that is called.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import nn

from torchresidual.alpha import LearnableAlpha
from torchresidual.operations import OPERATIONS
from torchresidual.projection import Unsettled

if TYPE_CHECKING:
    from torchresidual.apply import Apply

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


@dataclass(frozen=True, slots=True)
class Formula:
    """An expression of ``x``, the current tensor, and ``r``, the recorded one after its projection.

    Args:
        expression: The expression; other names in it are keys of ``names``, or known to every written forward.
        first: What becomes of ``x`` before that, so that the layer's output is gone when the last tensor is made;
            "" for nothing.
        condition: What must hold for it besides that both are plain tensors, or "" if nothing must.
        names: What the expression refers to.
    """

    expression: str
    condition: str = ""
    first: str = ""
    names: dict[str, Any] = field(default_factory=dict)


def formula_of(apply: Apply, *, floating: bool) -> Formula | None:
    """Return how an Apply is written down, or None where only the general way is right.

    Args:
        apply: The Apply; setting what this reads makes plans out of date.
        floating: Whether ``r`` is known to be floating point.
    """
    if apply.__dict__.get("scale") != 1.0:
        return None
    if apply.operation == "concat":
        dim = _feature_dim(apply)
        return None if dim is None else Formula("cat((x, r), d)", names={"d": dim})
    if apply.operation == "highway":
        return _highway(apply)
    if isinstance(apply.alpha, LearnableAlpha):
        names = {"weighted": OPERATIONS[apply.operation].weighted, "weight": apply.alpha}
        return Formula("weighted(x, r, weight.forward())", "x.shape == r.shape", names=names)
    if type(apply.alpha) is not float:
        return None
    return _weighed(apply.operation, apply.alpha, floating=floating)


def projection_of(apply: Apply) -> dict[str, nn.Module | None] | None:
    """Return where an Apply's projection is found if it is called with the recorded tensor as it is, else None."""
    layer = apply.projection_layer
    if type(layer) is Unsettled or apply.operation == "concat":
        return None
    if apply.projection_given or (isinstance(layer, nn.Linear) and _feature_dim(apply) == -1):
        return apply._modules
    return None


def _feature_dim(apply: Apply) -> int | None:
    return apply.settled_dim if apply.dim is None else apply.dim


def _weighed(operation: str, alpha: float, *, floating: bool) -> Formula:
    """Return an operation with a number as alpha, in as few kernels as give the same values."""
    # The fused kernels refuse integers, or promote them in another order than the formula does.
    condition = "x.shape == r.shape" + ("" if floating else " and r.dtype in FLOATS")
    if operation == "multiply":
        return (
            Formula("x * (r + 1)", condition)
            if alpha == 1.0
            else Formula("x * add(ONE, r, alpha=weight)", condition, names={"weight": alpha})
        )
    if operation == "add" and alpha == 1.0:
        return Formula("x + r", condition)
    if operation == "gated" and alpha == 1.0:
        return Formula("x + r", condition, "rest * x", names={"rest": 0.0})
    condition += " and x.dtype is r.dtype"
    if operation == "add":
        return Formula("add(x, r, alpha=weight)", condition, names={"weight": alpha})
    return Formula(
        "add(x, r, alpha=weight)", condition, "rest * x", names={"weight": alpha, "rest": 1 - alpha}
    )


def _highway(apply: Apply) -> Formula | None:
    gates = apply.gate_layer
    if gates is None or not all(_maps_features(gate, _feature_dim(apply)) for gate in gates.children()):
        return None
    # Looked up at each call: quantization replaces them.
    expression = 'sigmoid(gates["transform_gate"](x)) * x + sigmoid(gates["carry_gate"](r)) * r'
    return Formula(expression, "x.shape == r.shape", names={"gates": gates._modules})


def _maps_features(gate: nn.Module, dim: int | None) -> bool:
    """Say whether a gate takes a tensor as it is: a Linear along the last dimension, or a convolution."""
    return (isinstance(gate, nn.Linear) and dim == -1) or isinstance(gate, _CONVOLUTIONS)
