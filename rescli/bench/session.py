"""From prepared blocks to rows: what is shared out, set and put back around the engine."""

from __future__ import annotations

import gc
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import torch

from rescli.bench.clock import clock_for, mark_cost_s
from rescli.bench.commit import commit_of
from rescli.bench.comparing import compare_variants
from rescli.bench.describe import batch_size_of, computing_dtype, dtype_of, shared_warnings
from rescli.bench.engine import BLOCK, Engine
from rescli.bench.extras import with_extras
from rescli.bench.failure import Failure, describe_failure
from rescli.bench.flops import warm_up_counter
from rescli.bench.group_stopwatch import GroupStopwatch
from rescli.bench.headroom import available_bytes, check_headroom
from rescli.bench.matmul import matmul_rate
from rescli.bench.parallel import warm_up_distribution
from rescli.bench.plain import NothingToTakeOutError
from rescli.bench.result import PASSES
from rescli.bench.rows import Case, make_row
from rescli.bench.stopwatch import ClockStopwatch
from rescli.bench.subject import Limits, Series
from rescli.bench.variant import PLAIN, Variant, settings_of, subjects_of, variants_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rescli.bench.clock import Clock
    from rescli.bench.result import Comparison, PassName, PassResult
    from rescli.bench.settings import Settings
    from rescli.bench.stopwatch import Stopwatch
    from rescli.bench.variant import Match
    from rescli.spec.prepare import PreparedBlock

# A launch costs the host more than a call of the CPU does, so a sample on a GPU is longer.
_SAMPLE_S = {"cpu": 1e-3, "cuda": 5e-3, "mps": 5e-3}


@dataclass(slots=True)
class Findings:
    """What has been measured so far; an interruption leaves it as it is.

    Args:
        rows: The rows that are finished.
        comparisons: The comparisons of rows.
        matmul_rates: Rate of a large matrix product by device and type, measured once.
    """

    rows: list[PassResult] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)
    matmul_rates: dict[tuple[str, torch.dtype], float | None] = field(default_factory=dict)


def _no_report(_text: str) -> None:
    """Say nothing."""


def bench_blocks(
    matches: Sequence[Match],
    settings: Settings,
    findings: Findings,
    *,
    report: Callable[[str], None] = _no_report,
) -> None:
    """Measure the blocks of one target within its time.

    Args:
        matches: The blocks of the target and what they are compared with; they are left as they are.
        settings: How to measure.
        findings: Rows and comparisons are added here as they are finished, so that an interruption loses none.
        report: Told what runs now.

    Raises:
        KeyboardInterrupt: The run was interrupted; the samples taken until then are in ``findings``.
    """
    clock = clock_for(settings.devices)
    stopwatch = _stopwatch_for(clock, settings)
    if settings.peers is not None:
        warm_up_distribution(settings.devices[0])
    if settings.is_first:
        warm_up_counter()
    # All processes of a group measure it at the same time, as they share what the machine can do.
    stopwatch.gather(partial(_know_matmul_rates, matches, settings, clock, findings))
    deadline_s = stopwatch.now_s() + settings.max_time_s
    cases = [(match, size) for match in matches for size in settings.batch_sizes or (None,)]
    for place, (match, size) in enumerate(cases):
        # What one case leaves of its share goes to those behind it.
        share_s = max(0.0, deadline_s - stopwatch.now_s()) / (len(cases) - place)
        _bench_case(_CaseRun(match, size, settings, clock, stopwatch, share_s, len(cases), findings), report)


def _stopwatch_for(clock: Clock, settings: Settings) -> Stopwatch:
    alone = ClockStopwatch(clock)
    if settings.peers is None:
        return alone
    return GroupStopwatch(alone, settings.peers, settings.is_interrupted)


@dataclass(frozen=True, slots=True)
class _CaseRun:
    """One block at one batch size, with the share of time that it may take."""

    match: Match
    batch_size: int | None
    settings: Settings
    clock: Clock
    stopwatch: Stopwatch
    share_s: float
    cases: int
    findings: Findings


def _bench_case(run: _CaseRun, report: Callable[[str], None]) -> None:
    settings = run.settings
    started_s = run.stopwatch.now_s()
    try:
        match, variants, missing = _sized_variants(run)
        cases = {variant.label: _describe_case(run, variant) for variant in variants}
    # An input that cannot be made is a row like any other; see the engine.
    except Exception as error:  # noqa: BLE001
        run.findings.rows.extend(_failed_rows(run, run.match.block, BLOCK, describe_failure(error)))
        return
    if settings.modes.compiled:
        # What earlier sizes have compiled counts against the number of times that one function is compiled.
        torch.compiler.reset()
    limits = Limits(
        deadline_s=started_s + run.share_s,
        min_time_s=settings.min_time_s / run.cases,
        sample_s=_SAMPLE_S[settings.devices[0].type],
    )
    engine = Engine(
        [subject for variant in variants for subject in subjects_of(variant, settings)],
        run.stopwatch,
        limits,
        seed=settings.seed,
        report=lambda label: report(f"{match.block.name}, batch {cases[BLOCK].batch_size}: {label}"),
        recover=partial(_give_memory_back, cuda=settings.on_cuda),
    )
    interrupted = False
    try:
        with torch.random.fork_rng([device.index for device in settings.devices if settings.on_cuda]):
            torch.manual_seed(settings.seed)
            engine.open()
            for variant in variants:
                cases[variant.label] = with_extras(
                    engine, variant, cases[variant.label], settings, run.stopwatch
                )
            engine.sample()
    except KeyboardInterrupt:
        interrupted = True
    for variant in variants:
        found = [make_row(cases[variant.label], one) for one in _in_order(engine, variant, settings.passes)]
        run.findings.rows.extend(_cut_short(found) if interrupted else found)
    if missing is not None:
        run.findings.rows.extend(_failed_rows(run, match.block, PLAIN, missing))
    comparisons = compare_variants(engine.series(), cases, settings.passes, seed=settings.seed)
    run.findings.comparisons.extend(comparisons)
    if interrupted:
        raise KeyboardInterrupt


def _sized_variants(run: _CaseRun) -> tuple[Match, tuple[Variant, ...], Failure | None]:
    """Give the variants at the batch size of the case, and why the plain one is not among them."""
    match = run.match
    if run.batch_size is not None:
        versus = match.versus and _resized(match.versus, run)
        match = replace(match, block=_resized(match.block, run), versus=versus)
    try:
        return match, variants_of(match), None
    except NothingToTakeOutError as error:
        return match, variants_of(replace(match, plain=False)), _as_no_plain(describe_failure(error))


def _resized(block: PreparedBlock, run: _CaseRun) -> PreparedBlock:
    assert run.batch_size is not None  # noqa: S101 - who calls has looked
    if run.settings.devices[0].type == "cpu":
        check_headroom(block.inputs, batch_size_of(block), run.batch_size, available_bytes())
    return replace(block, inputs=block.resized(run.batch_size))


def _cut_short(rows: list[PassResult]) -> Iterator[PassResult]:
    """Keep what has something to say, without the advice to allow more time: it was not the limit that ended it."""
    for row in rows:
        if row.samples_s or row.failure:
            warnings = tuple(one for one in row.warnings if one.code != "too-few-samples")
            yield replace(row, warnings=warnings)


def _in_order(engine: Engine, variant: Variant, passes: Sequence[PassName]) -> Iterator[Series]:
    by_name = {one.pass_name: one for one in engine.series() if one.variant == variant.label}
    for name in PASSES:
        if name in passes and name in by_name:
            series = by_name[name]
            if variant.label == PLAIN and series.failure is not None:
                series = replace(series, failure=_as_no_plain(series.failure))
            yield series


def _as_no_plain(failure: Failure) -> Failure:
    """Say of a failure that it is for want of the skips; memory that is short has another reason."""
    is_theirs = failure.code == "failed"
    return replace(failure, code="no-plain") if is_theirs else failure


def _know_matmul_rates(
    matches: Sequence[Match], settings: Settings, clock: Clock, findings: Findings
) -> None:
    device = settings.devices[0]
    for match in matches:
        dtype = computing_dtype(match.block, settings)
        key = (str(device), dtype)
        if key not in findings.matmul_rates:
            findings.matmul_rates[key] = matmul_rate(device, dtype, clock)


def _describe_case(run: _CaseRun, variant: Variant) -> Case:
    settings, block = settings_of(variant, run.settings), variant.block
    rate = run.findings.matmul_rates.get((str(settings.devices[0]), computing_dtype(block, settings)))
    return replace(
        _bare_case(settings, block, variant.label),
        timer_s=mark_cost_s(run.clock),
        matmul_rate=None if rate is None else rate * settings.workers,
        warnings=tuple(shared_warnings(variant, settings)),
    )


def _bare_case(settings: Settings, block: PreparedBlock, label: str) -> Case:
    modes = settings.modes
    autocast = modes.autocast_dtype(settings.devices[0])
    return Case(
        name=block.name,
        target=block.target,
        device=settings.device_names,
        parallel=modes.parallel,
        workers=settings.workers,
        dtype=dtype_of(block),
        batch_size=batch_size_of(block),
        timer_s=0.0,
        max_time_s=settings.max_time_s,
        variant=label,
        autocast_dtype=None if autocast is None else str(autocast).removeprefix("torch."),
        compiled=modes.compiled,
        channels_last=modes.channels_last,
        commit=commit_of(block.spec_file),
    )


def _failed_rows(run: _CaseRun, block: PreparedBlock, label: str, failure: Failure) -> Iterator[PassResult]:
    """Give the rows of what did not even get its input."""
    case = _bare_case(run.settings, block, label)
    if run.batch_size is not None:
        case = replace(case, batch_size=run.batch_size)
    for name in PASSES:
        if name in run.settings.passes:
            yield make_row(case, Series(name, (), (), 0, None, failure, label))


def _give_memory_back(*, cuda: bool) -> None:
    """Free what a failed call has left, so that the next size finds all there is."""
    gc.collect()
    if cuda:
        torch.cuda.empty_cache()
