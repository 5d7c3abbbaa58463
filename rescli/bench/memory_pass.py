"""The pass in which memory is measured: every exercise once more, on a module that has not been called."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from torch import nn

from rescli.bench.allocations import trace_memory
from rescli.bench.memory import CudaAllocator, MemoryUse, measure_memory
from rescli.bench.passes import Forward, Inference, Training
from rescli.bench.variant import dressed_copy

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from rescli.bench.result import PassName
    from rescli.bench.settings import Settings
    from rescli.bench.subject import Exercise
    from rescli.bench.variant import Variant


def measure_variant(
    exercises: Sequence[Exercise], variant: Variant, settings: Settings
) -> dict[PassName, MemoryUse]:
    """Measure the memory of all passes of a variant.

    Each exercise is built anew, so that what a block keeps from its first call is seen. Compiled ones are taken as
    they are, as compiling again would take minutes, and so are those of DistributedDataParallel, which lays out its
    buffers anew in the first calls. Parameters that come to be in the first call are the block's
    own and not counted.

    Args:
        exercises: The exercises of the variant; they have been called.
        variant: What they run.
        settings: How they run.

    Returns:
        What could be measured; nothing for MPS, which does not say.
    """
    found: dict[PassName, MemoryUse] = {}
    # There may be no room for another copy, or a profiler of the user's own may be running.
    with contextlib.suppress(RuntimeError, MemoryError):
        for exercise in exercises:
            found |= _measure(exercise, variant, settings)
    return found


def _measure(exercise: Exercise, variant: Variant, settings: Settings) -> dict[PassName, MemoryUse]:
    if settings.modes.parallel == "ddp":
        # In the second call at the latest the buffers lie where they stay.
        exercise.run(1, _no_mark)
        return _run(exercise, settings.devices)
    if settings.modes.compiled:
        return _run(exercise, settings.devices)
    module, inputs = dressed_copy(variant, settings)
    before = _own_bytes(module)
    if isinstance(exercise, Training):
        fresh: Exercise = Training(module, inputs, ones=exercise.ones)
    elif isinstance(exercise, Inference):
        fresh = Inference(module, inputs)
    else:
        fresh = Forward(module, inputs)
    found = _run(fresh, settings.devices)
    grown = _own_bytes(module) - before
    return {
        name: MemoryUse(use.peak_bytes - grown, use.retained_bytes - grown) for name, use in found.items()
    }


def _run(exercise: Exercise, devices: Sequence[torch.device]) -> dict[PassName, MemoryUse]:
    kind = devices[0].type
    if kind == "cpu":
        return trace_memory(exercise)
    return measure_memory(exercise, CudaAllocator(devices)) if kind == "cuda" else {}


def _no_mark() -> None:
    """Measure nothing."""


def _own_bytes(module: nn.Module) -> int:
    tensors = (*module.parameters(), *module.buffers())
    return sum(t.numel() * t.element_size() for t in tensors if not nn.parameter.is_lazy(t))
