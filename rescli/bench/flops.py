"""How many floating point operations each pass takes, counted outside the timed calls or not given at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.utils.flop_counter import FlopCounterMode

from rescli.graph.trace import trace

if TYPE_CHECKING:
    from rescli.bench.passes import Training
    from rescli.bench.result import PassName
    from rescli.spec.prepare import PreparedBlock


def count_flops(block: PreparedBlock, training: Training | None) -> dict[PassName, int]:
    """Count the operations of each pass, two for a multiply-add; passes that cannot be counted are left out.

    Args:
        block: What is measured, with the input it is measured on.
        training: Makes its backward pass, or None if that is not wanted.
    """
    graph = trace(block.module, block.inputs, name=block.name, target=block.target, origin=block.origin)
    if graph.uncounted or graph.failure is not None:
        return {}
    counts: dict[PassName, int] = {"inference": graph.flops, "forward": graph.flops}
    backward = None if training is None else backward_flops(training, graph.flops)
    if backward is not None:
        counts |= {"backward": backward, "step": graph.flops + backward}
    return counts


def warm_up_counter() -> None:
    """Let PyTorch import what its counter needs, a second's worth, before anybody's time is running."""
    with FlopCounterMode(display=False):
        torch.mm(torch.ones(1, 1), torch.ones(1, 1))


def backward_flops(training: Training, forward: int) -> int | None:
    """Count the operations of the backward pass with PyTorch's own counter.

    Args:
        training: Is run for one step.
        forward: What the forward pass is known to take. The counter sees nothing of kernels that it has no
            formula for, so it is believed only if it finds the same.

    Returns:
        The count, or None if the counter cannot be believed.
    """
    counts: list[int] = []
    try:
        with FlopCounterMode(display=False) as counter:
            training.run(1, lambda: counts.append(counter.get_total_flops()))
    # The counter rewrites what a module computes with, and some modules do not bear that.
    except Exception:  # noqa: BLE001
        return None
    before, after_forward, before_backward, after_backward = counts
    return after_backward - before_backward if after_forward - before == forward else None
