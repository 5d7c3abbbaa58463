"""What one call of each pass does, and where its timed parts begin and end.

==========  =========================================================================================
inference   the module called in eval mode under ``torch.inference_mode()``
forward     the module called in training mode with autograd on, so that the graph is built
backward    ``torch.autograd.backward`` from every output that requires a gradient, on that call's own graph
step        forward and backward of one call, as a whole; no optimizer
==========  =========================================================================================

A forward pass that is timed inside a step finds the caches as a backward pass leaves them, and is slower than in
a loop of forward passes alone, which is what runs if neither backward nor step is wanted.

Every exercise works on a copy of its own: training changes running statistics, and what a module keeps from
an inference call is of no use to autograd.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from rescli.bench.failure import NothingToDifferentiateError
from rescli.threads.copies import copy_module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rescli.bench.result import PassName


class Inference:
    """Calls in eval mode, without autograd.

    Args:
        module: What to call; it is put into eval mode and should be nobody else's.
        inputs: Its positional arguments.
    """

    parts: Mapping[PassName, tuple[int, ...]] = {"inference": (0,)}
    period = 1

    def __init__(self, module: nn.Module, inputs: Sequence[Tensor]) -> None:
        self._module = module.eval()
        self._inputs = tuple(inputs)

    def run(self, iterations: int, mark: Callable[[], None]) -> None:
        """Call the module; the outputs are dropped, one mark stands before and one after all calls."""
        module, inputs = self._module, self._inputs
        with torch.inference_mode():
            mark()
            for _ in range(iterations):
                module(*inputs)
            mark()


class Forward:
    """Calls in training mode that build the graph and drop it.

    Args:
        module: What to call; it is put into training mode and should be nobody else's.
        inputs: Its positional arguments; a floating one is made to require a gradient if no parameter does.
    """

    # Of two intervals, the second is the time between two calls.
    parts: Mapping[PassName, tuple[int, ...]] = {"forward": (0,)}
    period = 2

    def __init__(self, module: nn.Module, inputs: Sequence[Tensor]) -> None:
        self._module = module.train()
        self._inputs = tuple(inputs)
        _require_some_gradient(module, self._inputs)

    def run(self, iterations: int, mark: Callable[[], None]) -> None:
        """Call the module between two marks; the graph is taken down outside of them."""
        module, inputs = self._module, self._inputs
        with torch.enable_grad():
            for _ in range(iterations):
                mark()
                output = module(*inputs)
                mark()
                del output


class Training:
    """Calls in training mode, each with a backward pass on its own graph.

    Args:
        module: What to call; it is put into training mode and should be nobody else's.
        inputs: Its positional arguments; a floating one is made to require a gradient if no parameter does.
        ones: The gradients to start from, of another exercise on a module of the same outputs; None to make them.
    """

    # Of four intervals, the second is the moment between forward and backward, the fourth that between steps.
    parts: Mapping[PassName, tuple[int, ...]] = {"forward": (0,), "backward": (2,), "step": (0, 1, 2)}
    period = 4

    def __init__(
        self, module: nn.Module, inputs: Sequence[Tensor], *, ones: Sequence[Tensor] | None = None
    ) -> None:
        self._module = module.train()
        self._inputs = tuple(inputs)
        self._leaves = _require_some_gradient(module, self._inputs)
        self._ones = list(ones or ())

    @property
    def ones(self) -> tuple[Tensor, ...]:
        """The gradients that backward passes start from; empty before the first call."""
        return tuple(self._ones)

    def run(self, iterations: int, mark: Callable[[], None]) -> None:
        """Run steps with four marks each: around the forward and around the backward pass.

        Gradients are dropped before each step, and the ones to start from are made once: neither is timed.

        Raises:
            NothingToDifferentiateError: No output requires a gradient.
        """
        module, inputs = self._module, self._inputs
        with torch.enable_grad():
            for _ in range(iterations):
                self._forget_gradients()
                mark()
                output = module(*inputs)
                mark()
                roots = [output] if type(output) is Tensor else list(differentiable_outputs(output))
                ones = self._ones or self._make_ones(roots)
                mark()
                torch.autograd.backward(roots, ones)
                mark()
                del output, roots
        self._forget_gradients()

    def _forget_gradients(self) -> None:
        for leaf in self._leaves:
            leaf.grad = None

    def _make_ones(self, roots: list[Tensor]) -> list[Tensor]:
        if not any(root.requires_grad for root in roots):
            raise NothingToDifferentiateError(
                "no output of the block requires a gradient"
                if self._leaves
                else "the block has no parameter and no floating point input"
            )
        self._ones = [torch.ones_like(root) for root in roots]
        return self._ones


def private_copy(module: nn.Module, inputs: Sequence[Tensor]) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Copy a module and its inputs, so that running them leaves no trace on the ones given.

    Args:
        module: Any module; hooks are copied with it, and for a lock it gets a new one.
        inputs: Its inputs; the copies are leaves that require no gradient.
    """
    return copy_module(module), tuple(tensor.detach().clone() for tensor in inputs)


def differentiable_outputs(output: object) -> Iterator[Tensor]:
    """Find the tensors in a module's output that a backward pass can start from.

    Args:
        output: A tensor, or tuples, lists, mappings and dataclasses of them, nested as they come.
    """
    if isinstance(output, Tensor):
        if output.requires_grad:
            yield output
    elif isinstance(output, Mapping):
        for item in output.values():
            yield from differentiable_outputs(item)
    elif isinstance(output, (tuple, list)):
        for item in output:
            yield from differentiable_outputs(item)
    elif is_dataclass(output) and not isinstance(output, type):
        for entry in fields(output):
            yield from differentiable_outputs(getattr(output, entry.name))


def _require_some_gradient(module: nn.Module, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Give the leaves that collect gradients: the parameters, or the inputs where no parameter does."""
    parameters = tuple(parameter for parameter in module.parameters() if parameter.requires_grad)
    if parameters:
        return parameters
    floating = tuple(tensor for tensor in inputs if tensor.is_floating_point() or tensor.is_complex())
    for tensor in floating:
        tensor.requires_grad_()
    return floating
