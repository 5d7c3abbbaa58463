"""How many floating point operations each pass takes, counted outside the timed calls or not given at all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch.utils.flop_counter import FlopCounterMode

from rescli.graph.trace import trace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rescli.bench.passes import Training
    from rescli.bench.result import PassName
    from rescli.spec.prepare import PreparedBlock


@dataclass(frozen=True, slots=True)
class Counted:
    """What could be counted.

    Args:
        flops: Operations by pass, two for a multiply-add.
        why_not: Why a pass is not in there; empty if all are.
    """

    flops: Mapping[PassName, int] = field(default_factory=dict)
    why_not: str = ""


def count_flops(block: PreparedBlock, training: Training | None) -> Counted:
    """Count the operations of each pass.

    Args:
        block: What is measured, with the input it is measured on.
        training: Makes its backward pass, or None if that is not wanted.
    """
    graph = trace(block.module, block.inputs, name=block.name, target=block.target, origin=block.origin)
    if graph.failure is not None:
        return Counted(why_not="the block cannot be traced")
    if graph.uncounted:
        first, *more = (path or "the block itself" for path in graph.uncounted)
        whose = f"{first} and {len(more)} more compute" if more else f"{first} computes"
        return Counted(why_not=f"there is no formula for what {whose}")
    counts: dict[PassName, int] = {"inference": graph.flops, "forward": graph.flops}
    if training is None:
        return Counted(counts)
    backward = backward_flops(training, graph.flops)
    if backward is None:
        return Counted(counts, "PyTorch's counter does not see every operation of the block")
    return Counted(counts | {"backward": backward, "step": graph.flops + backward})


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
