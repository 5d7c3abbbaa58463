"""From samples to the rows of the result: statistics, rates, and what to know before believing them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rescli.bench.result import BenchWarning, PassResult
from rescli.bench.stats import FEWEST_FOR_INTERVAL, quantile, summarise

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rescli.bench.memory import MemoryUse
    from rescli.bench.result import PassName, Statistics
    from rescli.bench.subject import Series

# The median of a row is promised within 3%: a clock that takes as much for itself is worth a warning.
_TIMER_SHARE = 0.03
# An interval wider than this around the median means that the machine was not left alone.
_UNSTEADY_SHARE = 0.05
# Timed intervals in one call, each of which contains one reading of the clock.
_READINGS: Mapping[PassName, int] = {"forward": 1, "backward": 1, "step": 3}


@dataclass(frozen=True, slots=True)
class Case:
    """One block at one batch size, and all that its rows share.

    Args:
        name: The block's variable or function.
        target: Where the block comes from.
        device: Where it runs.
        parallel: ``none``, ``dp`` or ``ddp``.
        dtype: Floating point type of the block.
        batch_size: Items in the batch.
        variant: Which form of the block it is.
        autocast_dtype: Type that autocast computes in; None without it.
        compiled: Whether ``torch.compile`` made it.
        channels_last: Whether it lies channels last.
        commit: Commit of the repository that the spec lies in.
        timer_s: What reading the clock takes.
        max_time_s: The time that was allowed, for the sentence that says it was too little.
        workers: How many devices or processes share a batch.
        flops: Operations by pass, for those that were counted.
        uncounted: Why others were not; empty where that is not to be told.
        matmul_rate: Operations a second of a large matrix product, in the type that is computed in.
        memory: Memory by pass, for those that were measured.
        warnings: What holds for every row.
    """

    name: str
    target: str
    device: str
    parallel: str
    dtype: str
    batch_size: int
    timer_s: float
    max_time_s: float
    variant: str = "block"
    autocast_dtype: str | None = None
    compiled: bool = False
    channels_last: bool = False
    commit: str | None = None
    matmul_rate: float | None = None
    workers: int = 1
    flops: Mapping[PassName, int] = field(default_factory=dict)
    uncounted: str = ""
    memory: Mapping[PassName, MemoryUse] = field(default_factory=dict)
    warnings: tuple[BenchWarning, ...] = ()


def make_row(case: Case, series: Series) -> PassResult:
    """Make the row of one pass.

    Args:
        case: What the rows of the block share.
        series: The samples of the pass.
    """
    statistics = summarise(series.samples_s) if series.samples_s else None
    flops = case.flops.get(series.pass_name)
    memory = case.memory.get(series.pass_name)
    rate = _rate(flops, statistics)
    return PassResult(
        name=case.name,
        target=case.target,
        variant=case.variant,
        device=case.device,
        parallel=case.parallel,
        workers=case.workers,
        dtype=case.dtype,
        batch_size=case.batch_size,
        pass_name=series.pass_name,
        autocast_dtype=case.autocast_dtype,
        compiled=case.compiled,
        channels_last=case.channels_last,
        commit=case.commit,
        samples_s=series.samples_s,
        iterations=series.iterations,
        statistics=statistics,
        wall_median_s=quantile(sorted(series.walls_s), 0.5) if series.walls_s else None,
        throughput_per_s=_rate(case.batch_size, statistics),
        first_call_s=series.first_call_s,
        compile_s=_compile_s(case, series, statistics),
        peak_memory_bytes=memory.peak_bytes if memory else None,
        retained_bytes=memory.retained_bytes if memory else None,
        flops=flops,
        flops_per_s=rate,
        flops_share=rate / case.matmul_rate if rate is not None and case.matmul_rate else None,
        warnings=(*_warnings(case, series, statistics), *case.warnings),
        failure=series.failure,
    )


def _compile_s(case: Case, series: Series, statistics: Statistics | None) -> float | None:
    """Give what the first call took beyond a usual one; most of that is compiling."""
    if not case.compiled or statistics is None or series.first_call_s is None:
        return None
    return max(0.0, series.first_call_s - statistics.median_s)


def _rate(amount: int | None, statistics: Statistics | None) -> float | None:
    if amount is None or statistics is None or statistics.median_s <= 0:
        return None
    return amount / statistics.median_s


def _warnings(case: Case, series: Series, statistics: Statistics | None) -> list[BenchWarning]:
    if series.failure is not None:
        failure = series.failure
        return [BenchWarning(failure.code, {"error": failure.error, "message": failure.message})]
    if statistics is None:
        return [BenchWarning("no-time", {"max_time_s": case.max_time_s})]
    found: list[BenchWarning] = []
    taken = len(series.samples_s)
    if taken < FEWEST_FOR_INTERVAL:
        # At the same rate there would be enough for an interval, and two to spare.
        enough_s = case.max_time_s * (FEWEST_FOR_INTERVAL + 2) / taken
        facts = {"samples": taken, "max_time_s": case.max_time_s, "enough_s": enough_s}
        found.append(BenchWarning("too-few-samples", facts))
    elif case.uncounted and series.pass_name not in case.flops:
        found.append(BenchWarning("uncounted", {"reason": case.uncounted}))
    if (off := _distance(statistics)) > _UNSTEADY_SHARE:
        found.append(BenchWarning("unsteady", {"share": off}))
    readings = _READINGS.get(series.pass_name, 1 / series.iterations)
    if readings * case.timer_s > _TIMER_SHARE * statistics.median_s:
        facts = {"timer_s": readings * case.timer_s, "median_s": statistics.median_s}
        found.append(BenchWarning("timer-noise", facts))
    return found


def _distance(statistics: Statistics) -> float:
    """Give how far the ends of the interval are from the median, as a share of it."""
    if statistics.ci95_s is None or statistics.median_s <= 0:
        return 0.0
    low, high = statistics.ci95_s
    return max(statistics.median_s - low, high - statistics.median_s) / statistics.median_s
