"""Layers and small tools that many tests use."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

from torchresidual import Apply, Record

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

T = TypeVar("T")


class Doubled(nn.Module):
    """A layer that torchresidual does not know: twice the features, in the last dimension."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat((x, 2 * x), -1)


class Unknown(nn.Module):
    """A layer that torchresidual does not know, around one that it would."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.inner(x)
        return result


class InOrder(nn.Module):
    """A layer of the user's own that runs others in order; Records and Applies in it see the block around."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class SameTensor(nn.Module):
    """A layer of the user's own that returns a view of its input."""

    def forward(self, x: Tensor) -> Tensor:
        return x.view(x.shape)


class WritesInPlace(nn.Module):
    """A layer of the user's own that changes its input."""

    def forward(self, x: Tensor) -> Tensor:
        return x.add_(1)


class Calls(nn.Module):
    """Calls a function with what passes by."""

    def __init__(self, function: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        self.function(x)
        return x


class Meets(nn.Module):
    """Waits until all threads have come here; copies of it share the barrier."""

    def __init__(self, barrier: threading.Barrier) -> None:
        super().__init__()
        self.barrier = barrier

    def forward(self, x: Tensor) -> Tensor:
        self.barrier.wait(timeout=60)
        return x


class KeepsOnSelf(nn.Module):
    """The planted fault: a block that keeps the recorded tensor on itself, as torchresidual 0.1.0 did."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.store: dict[str, Tensor] = {}

    def forward(self, x: Tensor) -> Tensor:
        self.store["r"] = x
        for layer in self.layers:
            x = layer(x)
        return x + self.store["r"]


def apply_in(block: nn.Module, number: int = 0) -> Apply:
    """Return the block's Apply of that number, nested ones included."""
    return [module for module in block.modules() if isinstance(module, Apply)][number]


def record_in(block: nn.Module, number: int = 0) -> Record:
    """Return the block's Record of that number, nested ones included."""
    return [module for module in block.modules() if isinstance(module, Record)][number]


def projection_of(block: nn.Module, number: int = 0) -> nn.Module | None:
    """Return the projection of the block's Apply of that number."""
    return apply_in(block, number).projection_layer


def gates_of(block: nn.Module, number: int = 0) -> tuple[nn.Module, nn.Module]:
    """Return transform gate and carry gate of the block's Apply of that number."""
    gates = apply_in(block, number).gate_layer
    assert gates is not None
    return gates.get_submodule("transform_gate"), gates.get_submodule("carry_gate")


def layer_of(block: nn.Module, path: str) -> Callable[..., Tensor]:
    """Return a layer by its path, to be called."""
    return block.get_submodule(path)


def twin(block: nn.Module) -> nn.Module:
    """Return a copy with the same parameters."""
    return copy.deepcopy(block)


def gradients(output: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    """Return the gradients of a weighted sum of the output, each entry with a weight of its own."""
    weights = torch.arange(1, output.numel() + 1, dtype=output.dtype).reshape(output.shape) / output.numel()
    return torch.autograd.grad((output * weights).sum(), inputs)


def replicas_of(module: nn.Module, count: int) -> list[nn.Module]:
    """Return replicas of a whole tree on this device, made as ``torch.nn.parallel.replicate`` makes them."""
    modules = list(module.modules())
    numbers = {id(one): number for number, one in enumerate(modules)}
    copies: list[list[Any]] = [
        [one._replicate_for_data_parallel() for one in modules]  # type: ignore[no-untyped-call]  # torch's own
        for _ in range(count)
    ]
    for number, one in enumerate(modules):
        for copied in copies:
            replica = copied[number]
            for key, child in one._modules.items():
                if child is None:
                    replica._modules[key] = None
                else:
                    setattr(replica, key, copied[numbers[id(child)]])
            for key, parameter in one._parameters.items():
                if parameter is None:
                    replica._parameters[key] = None
                else:
                    setattr(replica, key, parameter * 1)
    return [copied[0] for copied in copies]


def in_threads(tasks: list[Callable[[], T]]) -> list[T]:
    """Run every task in a thread of its own and return what they return; the first exception is raised."""
    with ThreadPoolExecutor(len(tasks)) as pool:
        return [future.result(timeout=120) for future in [pool.submit(task) for task in tasks]]
