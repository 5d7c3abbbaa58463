"""The blocks whose cost is measured, and the forwards that a person would write by hand in their place.

All forms of a cell hold the same layers. Those under ``hand`` give the values of the block, also for infinities; those
under ``fused`` do not (``torch.lerp`` of two minus infinities is NaN, so is ``torch.addcmul`` of an infinity and a
zero).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

import torchresidual

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

OPERATIONS = ("add", "concat", "multiply", "gated", "highway")
ALPHAS = ("1", "0.3", "learned")
SHAPES = ("block in block", "nested Sequential", "custom layer")


@dataclass(frozen=True, slots=True)
class Forms:
    """What runs in one cell.

    Args:
        ours: The ResidualSequential.
        hand: Forwards written by hand with the same values, by what they are.
        plain: The same layers in an ``nn.Sequential`` without the skip.
        fused: A faster form of other values, or None.
        peer: The block of the published library, or None.
    """

    ours: nn.Module
    hand: dict[str, nn.Module]
    plain: nn.Module
    fused: nn.Module | None = None
    peer: nn.Module | None = field(default=None)


def hand(layer: nn.Module, forward: Callable[[Any, Tensor], Tensor], **parts: nn.Module) -> nn.Module:
    """Return a module with a layer and the forward that a person would write, nothing else in the way."""
    module: nn.Module = type("Hand", (nn.Module,), {"forward": forward})()
    module.layer = layer
    for name, part in parts.items():
        setattr(module, name, part)
    return module


class Custom(nn.Module):
    """A layer of the user's own."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        """Run it."""
        y: Tensor = self.layer(x)
        return y


# By operation and kind of alpha: what a person would write, from the plainest on. 0.3 is the constant of that column.
_HAND: dict[tuple[str, str], dict[str, Callable[[Any, Tensor], Tensor]]] = {
    ("add", "1"): {"x + r": lambda self, r: self.layer(r) + r},
    ("add", "0.3"): {
        "x + a*r": lambda self, r: self.layer(r) + 0.3 * r,
        "torch.add": lambda self, r: torch.add(self.layer(r), r, alpha=0.3),
    },
    ("add", "learned"): {
        "x + a*r": lambda self, r: self.layer(r) + self.alpha() * r,
        "addcmul": lambda self, r: torch.addcmul(self.layer(r), r, self.alpha()),
    },
    ("concat", "1"): {"cat": lambda self, r: torch.cat([self.layer(r), r], -1)},
    ("multiply", "1"): {"x * (1 + r)": lambda self, r: self.layer(r) * (1 + r)},
    ("multiply", "0.3"): {"x * (1 + a*r)": lambda self, r: self.layer(r) * (1 + 0.3 * r)},
    ("multiply", "learned"): {"x * (1 + a*r)": lambda self, r: self.layer(r) * (1 + self.alpha() * r)},
    ("gated", "1"): {"0*x + r": lambda self, r: 0.0 * self.layer(r) + r},
    ("gated", "0.3"): {
        "(1-a)*x + a*r": lambda self, r: 0.7 * self.layer(r) + 0.3 * r,
        "torch.add": lambda self, r: torch.add(0.7 * self.layer(r), r, alpha=0.3),
    },
    ("gated", "learned"): {"(1-a)*x + a*r": lambda self, r: _gated(self.layer(r), r, self.alpha())},
}
_FUSED: dict[str, Callable[[Tensor, Tensor, Any], Tensor]] = {
    "multiply": lambda x, r, a: torch.addcmul(x, x, a * r if isinstance(a, Tensor) else r, value=_number(a)),
    "gated": torch.lerp,
}


def _gated(x: Tensor, r: Tensor, a: Tensor) -> Tensor:
    return (1 - a) * x + a * r


def _number(a: Tensor | float) -> float:
    return 1.0 if isinstance(a, Tensor) else a


def _highway(self: Any, r: Tensor) -> Tensor:  # noqa: ANN401 - a module whose parts mypy does not know
    x: Tensor = self.layer(r)
    out: Tensor = torch.sigmoid(self.transform(x)) * x + torch.sigmoid(self.carry(r)) * r
    return out


def _weight(alpha: str, library: ModuleType) -> Any:  # noqa: ANN401 - a number or a LearnableAlpha
    return library.LearnableAlpha(0.3) if alpha == "learned" else float(alpha)


def _block(library: ModuleType, layer: nn.Module, operation: str, alpha: str) -> nn.Module:
    block: nn.Module = library.ResidualSequential(
        library.Record(), layer, library.Apply(operation, alpha=_weight(alpha, library))
    )
    return block


def forms_of(operation: str, alpha: str, width: int, peer: ModuleType | None = None) -> Forms:
    """Return the forms of an operation around a Linear.

    Args:
        operation: One of ``OPERATIONS``.
        alpha: One of ``ALPHAS``.
        width: Features of the Linear.
        peer: The published torchresidual, if it is to run as well.
    """
    layer = nn.Linear(width, width)
    ours = _block(torchresidual, layer, operation, alpha)
    other = None if peer is None else _block(peer, layer, operation, alpha)
    if other is not None:
        with torch.no_grad():
            other(torch.zeros(1, width))  # it makes its gates in the first call, whatever the mode
    if operation == "highway":
        gates = {name: ours.get_submodule(f"2.gate_layer.{name}_gate") for name in ("transform", "carry")}
        return Forms(ours, {"plain": hand(layer, _highway, **gates)}, nn.Sequential(layer), peer=other)
    parts = {"alpha": ours.get_submodule("2.alpha")} if alpha == "learned" else {}
    written = {name: hand(layer, form, **parts) for name, form in _HAND[operation, alpha].items()}
    fused = None
    if operation in _FUSED:
        form, number = _FUSED[operation], None if alpha == "learned" else float(alpha)
        fused = hand(
            layer, lambda self, r: form(self.layer(r), r, self.alpha() if number is None else number), **parts
        )
    return Forms(ours, written, nn.Sequential(layer), fused, other)


def forms_of_shape(shape: str, width: int) -> Forms:
    """Return the forms of a block of a special shape, around a Linear and with a plain sum.

    Args:
        shape: One of ``SHAPES``.
        width: Features of the Linear.
    """
    rs, record, apply = torchresidual.ResidualSequential, torchresidual.Record, torchresidual.Apply
    layer: nn.Module = nn.Linear(width, width)
    add = _HAND["add", "1"]["x + r"]
    if shape == "block in block":
        ours: nn.Module = rs(record(), rs(record(), layer, apply()), apply())
        return Forms(ours, {"x + r": hand(hand(layer, add), add)}, nn.Sequential(nn.Sequential(layer)))
    if shape == "nested Sequential":
        ours = rs(nn.Sequential(record(name="r"), layer), apply(record_name="r"))
        return Forms(ours, {"x + r": hand(nn.Sequential(layer), add)}, nn.Sequential(nn.Sequential(layer)))
    layer = Custom(layer)
    return Forms(rs(record(), layer, apply()), {"x + r": hand(layer, add)}, nn.Sequential(layer))
