"""What is found out of a block beside its times: its operations and its memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rescli.bench.failure import FailedError
from rescli.bench.flops import Counted, count_flops
from rescli.bench.memory import add_memory
from rescli.bench.memory_pass import measure_variant
from rescli.bench.passes import Training, private_copy
from rescli.bench.result import NO_TIME_TO_COUNT
from rescli.bench.variant import SINGLE, settings_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rescli.bench.engine import Engine
    from rescli.bench.memory import MemoryUse
    from rescli.bench.result import PassName
    from rescli.bench.rows import Case
    from rescli.bench.settings import Settings
    from rescli.bench.stopwatch import Stopwatch
    from rescli.bench.subject import Exercise
    from rescli.bench.variant import Variant

# Counting operations takes about one call of each pass, and so does measuring memory; neither may take more of the
# time left than this.
_SHARE_FOR_EXTRAS = 0.25


def with_extras(
    engine: Engine, variant: Variant, case: Case, settings: Settings, stopwatch: Stopwatch
) -> Case:
    """Count operations and measure memory, unless the calls it takes are too dear for the time that is left.

    Args:
        engine: Has made the first calls, and knows the time that is left.
        variant: What is measured.
        case: What its rows share so far.
        settings: How its block is measured.
        stopwatch: Has the work done in every process.

    Returns:
        The case with what could be found out.
    """
    own = settings_of(variant, settings)
    exercises = engine.exercises(variant.label)
    affordable_s = _SHARE_FOR_EXTRAS * engine.time_left_s()
    if not exercises:
        return case
    if engine.cheapest_call_s() > affordable_s:
        return replace(case, uncounted=NO_TIME_TO_COUNT)
    training = next((one for one in exercises if isinstance(one, Training)), None)
    if training is not None and (own.modes.compiled or own.modes.parallel != "none"):
        # PyTorch's counter looks into neither compiled code nor other threads.
        training = Training(*private_copy(variant.block.module, variant.block.inputs))
    counts: list[Counted] = []
    # Of the whole batch, so one process will do.
    stopwatch.gather(
        lambda: counts.append(count_flops(variant.block, training) if settings.is_first else Counted())
    )
    case = replace(case, flops=counts[0].flops, uncounted=counts[0].why_not)
    if engine.cheapest_call_s() > _SHARE_FOR_EXTRAS * engine.time_left_s():
        return case
    return replace(case, memory=_memory_of(variant, exercises, settings, stopwatch))


def _memory_of(
    variant: Variant, exercises: Sequence[Exercise], settings: Settings, stopwatch: Stopwatch
) -> Mapping[PassName, MemoryUse]:
    """Measure the memory of a variant in every process that runs it."""
    is_idle = variant.label == SINGLE and not settings.is_first
    own = settings_of(variant, settings)
    try:
        found = stopwatch.gather(lambda: {} if is_idle else measure_variant(exercises, variant, own))
    except FailedError:  # in another process; what it leaves unknown is no reason to end
        return {}
    return add_memory([uses for uses in found if uses])
