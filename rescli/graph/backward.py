"""One backward pass through a copy of a block: which parameters it reaches."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from rescli.graph.copies import copy_block, suitable_device, untouched_rng
from rescli.graph.diagnostics.evidence import BackwardRun
from rescli.graph.recording import without_compiling
from rescli.graph.structure import has_size, map_tensors, tensors_in

if TYPE_CHECKING:
    from collections.abc import Sequence


def run_backward(module: nn.Module, inputs: Sequence[object]) -> BackwardRun | None:
    """Run a copy forward and backward from the sum of all its outputs.

    It runs in the mode that the block is in, and again in evaluation mode: what layers drop at random, or
    leave out of one of the modes, is not held against their parameters. Large blocks run without data.

    Args:
        module: The user's block.
        inputs: What its forward takes.

    Returns:
        What the pass left; None if the forward pass fails in both modes.
    """
    found: BackwardRun | None = None
    for is_training in (True, False):
        try:
            result = _run(module, inputs, is_training=is_training)
        except _ForwardError:
            continue
        if found is None:
            found = result
        elif not result.error:
            both = set(found.without_gradient) & set(result.without_gradient)
            found = BackwardRun(tuple(name for name in found.without_gradient if name in both))
        if found.error or not found.without_gradient:
            break
    return found


class _ForwardError(Exception):
    """The forward pass raised, which is told elsewhere."""


def _run(module: nn.Module, inputs: Sequence[object], *, is_training: bool) -> BackwardRun:
    device = suitable_device(module, inputs)
    block = copy_block(module, device).module
    if is_training:
        for mine, yours in zip(block.modules(), module.modules(), strict=False):
            mine.training = yours.training
    own = [map_tensors(each, lambda tensor: tensor.detach().to(device, copy=True)) for each in inputs]
    with warnings.catch_warnings(), untouched_rng(), torch.enable_grad(), without_compiling():
        warnings.simplefilter("ignore")
        try:
            output = block(*own)
        except Exception as error:
            raise _ForwardError from error
        trained = {
            name: each for name, each in block.named_parameters() if each.requires_grad and has_size(each)
        }
        ends = [_scalar(each) for each in tensors_in(output) if each.requires_grad]
        try:
            if ends:
                torch.stack(ends).sum().backward()  # type: ignore[no-untyped-call]  # torch leaves it so
        except Exception as error:  # noqa: BLE001 - a block that cannot be trained is a result
            reason = str(error).strip().partition("\n")[0]
            return BackwardRun(error=f"{type(error).__name__}: {reason}")
    return BackwardRun(tuple(name for name, each in trained.items() if each.grad is None))


def _scalar(output: Tensor) -> Tensor:
    total = output.abs().sum() if output.is_complex() else output.sum()
    return total.double()
