"""A direct interpreter of blocks: slow, obvious, and sharing no code with torchresidual's own.

It walks the modules, keeps recorded tensors in dictionaries, copies what an in-place layer is about to change, and
writes each operation as its formula.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from tests.torchresidual.toys import InOrder
from torchresidual import Apply, LearnableAlpha, Record, ResidualSequential


class NothingRecordedError(Exception):
    """An Apply found no Record."""


@dataclass
class Names:
    """What has been recorded in one scope."""

    outer: Names | None = None
    saved: dict[str, Tensor] = field(default_factory=dict)
    latest: Tensor | None = None

    def save(self, name: str | None, tensor: Tensor) -> None:
        self.latest = tensor
        if name is not None:
            self.saved[name] = tensor

    def find(self, name: str | None) -> Tensor:
        found = self.latest if name is None else self.saved.get(name)
        if found is not None:
            return found
        if self.outer is None:
            raise NothingRecordedError(name)
        return self.outer.find(name)


def interpret(module: nn.Module, x: Tensor, names: Names | None = None) -> Tensor:
    """Return what a block gives for ``x``."""
    names = names or Names()
    if isinstance(module, ResidualSequential):
        inner = Names(outer=names)
        for child in module._modules.values():
            assert child is not None
            x = interpret(child, x, inner)
        return x
    if isinstance(module, nn.Sequential | InOrder):
        for child in module.layers if isinstance(module, InOrder) else module:
            x = interpret(child, x, names)
        return x
    if isinstance(module, Record):
        names.save(module._given_name, x.clone())
        return x
    if isinstance(module, Apply):
        return combined(module, x, names.find(module.record_name))
    if getattr(module, "inplace", False):
        x = x.clone()
    result: Tensor = module(x)
    return result


def value_of(coefficient: float | LearnableAlpha | Tensor) -> float | Tensor:
    """Return alpha or scale as a number or tensor, LearnableAlpha by its formula."""
    if not isinstance(coefficient, LearnableAlpha):
        return coefficient
    low, high = coefficient.min_val.item(), coefficient.max_val.item()
    tanh = torch.tanh(coefficient.param)[0]
    if coefficient.use_log_space:
        low_log, high_log = torch.tensor(low).double().log(), torch.tensor(high).double().log()
        return torch.exp((low_log + high_log) / 2 + (high_log - low_log) / 2 * tanh)
    return (low + high) / 2 + (high - low) / 2 * tanh


def combined(apply: Apply, x: Tensor, r: Tensor) -> Tensor:
    """Return the formula of an Apply, features in the last dimension."""
    x = value_of(apply.scale) * x
    if apply.projection_layer is not None:
        r = apply.projection_layer(r)
    alpha = value_of(apply.alpha)
    result = r
    if apply.operation == "add":
        result = x + alpha * r
    elif apply.operation == "multiply":
        result = x * (1 + alpha * r)
    elif apply.operation == "gated":
        result = (1 - alpha) * x + alpha * r
    elif apply.operation == "concat":
        result = torch.cat([x, r], -1)
    else:
        assert apply.gate_layer is not None
        transform = torch.sigmoid(apply.gate_layer.get_submodule("transform_gate")(x))
        carry = torch.sigmoid(apply.gate_layer.get_submodule("carry_gate")(r))
        result = transform * x + carry * r
    return result
