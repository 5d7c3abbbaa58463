"""``nn.DataParallel`` itself against its parts run one after the other, each on its own device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn

from rescli.threads.copies import IncomparableError, copy_module
from rescli.threads.scatter import first_tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

# nn.DataParallel with one device calls the module itself.
LEAST_DEVICES = 2


@dataclass(frozen=True, slots=True)
class ParallelRun:
    """What came of calling a module through nn.DataParallel.

    Args:
        runs: How many calls were compared.
        wrong: How many gave something else than their parts.
        first: What the first wrong one differed in; empty if there is none.
    """

    runs: int
    wrong: int
    first: str


def gpus() -> tuple[torch.device, ...]:
    """Find the GPUs of this machine.

    Raises:
        IncomparableError: There are fewer than two.
    """
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count < LEAST_DEVICES:
        there = "there is no GPU" if not count else "there is one GPU"
        raise IncomparableError(
            f"{there}, with which nn.DataParallel calls the module itself; the scenario replicas stands in for it"
        )
    return tuple(torch.device("cuda", index) for index in range(count))


def run_parallel(
    module: nn.Module,
    inputs: Sequence[Tensor],
    devices: Sequence[torch.device],
    dim: int,
    runs: int,
    wrap: Callable[[nn.Module], nn.Module],
) -> ParallelRun:
    """Call a module through nn.DataParallel, and compare outputs and gradients with those of its parts.

    Args:
        module: The module; copies of it run.
        inputs: A batch of at least as many items as there are devices.
        devices: Where the parts run.
        dim: The dimension that is cut.
        runs: How many calls to make.
        wrap: Makes the parallel module of one on the first device.
    """
    expected = _in_parts(module, inputs, devices, dim)
    wrong, first = 0, ""
    for _ in range(runs):
        placed = copy_module(module).to(devices[0])
        found = _outputs_and_gradients(wrap(placed), [value.to(devices[0]) for value in inputs])
        different = [name for name, value in expected.items() if not _close(found.get(name), value)]
        wrong += bool(different)
        first = first or ", ".join(different[:3])
    return ParallelRun(runs, wrong, first)


def _in_parts(
    module: nn.Module, inputs: Sequence[Tensor], devices: Sequence[torch.device], dim: int
) -> dict[str, Tensor]:
    """Run the parts one after the other; outputs are put together and gradients added up."""
    cut = [value.chunk(len(devices), dim) for value in inputs]
    together: dict[str, list[Tensor]] = {}
    for index, device in enumerate(devices):
        part = [chunks[index].to(device) for chunks in cut]
        for name, value in _outputs_and_gradients(copy_module(module).to(device), part).items():
            together.setdefault(name, []).append(value)
    return {
        name: torch.cat(values, dim) if name.startswith("output") else torch.stack(values).sum(0)
        for name, values in together.items()
    }


def _outputs_and_gradients(module: nn.Module, inputs: Sequence[Tensor]) -> dict[str, Tensor]:
    """Give the first output, and the gradients of the sum of its squares by the parameters."""
    output = first_tensor(module(*inputs))
    if output is None:
        raise IncomparableError("forward gives no tensor")
    found = {"output": output.detach().cpu()}
    named = [(name.removeprefix("module."), p) for name, p in module.named_parameters() if p.requires_grad]
    if named and output.requires_grad:
        parameters = [parameter for _, parameter in named]
        grads = torch.autograd.grad(output.square().sum(), parameters, allow_unused=True)
        for (name, _), gradient in zip(named, grads, strict=True):
            if gradient is not None:
                found[f"gradient of {name}"] = gradient.cpu()
    return found


def _close(found: Tensor | None, expected: Tensor) -> bool:
    return found is not None and found.shape == expected.shape and torch.allclose(found, expected, 1e-3, 1e-4)
