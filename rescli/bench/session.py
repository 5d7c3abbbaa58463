"""From prepared blocks to rows: what is shared out, set and put back around the engine."""

from __future__ import annotations

import contextlib
import gc
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from rescli.bench.clock import clock_for, mark_cost_s
from rescli.bench.denormal import denormals
from rescli.bench.engine import Engine
from rescli.bench.environment import usable_cores
from rescli.bench.failure import Failure, describe_failure
from rescli.bench.flops import count_flops, warm_up_counter
from rescli.bench.headroom import available_bytes, check_headroom
from rescli.bench.memory import CudaAllocator, MemoryUse, measure_memory
from rescli.bench.parallel import spread
from rescli.bench.passes import Forward, Inference, Training, private_copy
from rescli.bench.result import PASSES, BenchWarning
from rescli.bench.rows import Case, make_row
from rescli.bench.subject import Limits, Series, Subject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torch import Tensor, nn

    from rescli.bench.clock import Clock
    from rescli.bench.result import PassName, PassResult
    from rescli.bench.subject import Exercise
    from rescli.spec.prepare import PreparedBlock

# A launch costs the host more than a call of the CPU does, so a sample on a GPU is longer.
_SAMPLE_S = {"cpu": 1e-3, "cuda": 5e-3, "mps": 5e-3}
# Counting operations takes about one call of each pass; it may not take more of the time left than this.
_SHARE_FOR_COUNTING = 0.5


@dataclass(frozen=True, slots=True)
class Settings:
    """How blocks are measured.

    Args:
        devices: Where they run; more than one only with ``dp``, the output arrives on the first.
        passes: Which passes are wanted.
        batch_sizes: Sizes of the batch, each measured on its own; empty for the block's own.
        parallel: ``none`` or ``dp``.
        threads: Threads for one operation; None leaves PyTorch's setting.
        min_time_s: Least sampling time of a target, if ``max_time_s`` allows.
        max_time_s: Most time that one target takes.
        seed: Decides dropout and the order of the turns.
    """

    devices: tuple[torch.device, ...] = (torch.device("cpu"),)
    passes: tuple[PassName, ...] = PASSES
    batch_sizes: tuple[int, ...] = ()
    parallel: str = "none"
    threads: int | None = None
    min_time_s: float = 0.5
    max_time_s: float = 10.0
    seed: int = 0


def _no_report(_text: str) -> None:
    """Say nothing."""


def bench_blocks(
    blocks: Sequence[PreparedBlock],
    settings: Settings,
    rows: list[PassResult],
    *,
    report: Callable[[str], None] = _no_report,
) -> None:
    """Measure the blocks of one target within its time.

    Args:
        blocks: The blocks of the target; they are left as they are.
        settings: How to measure.
        rows: The rows are appended here as they are finished, so that an interruption loses none.
        report: Told what runs now.

    Raises:
        KeyboardInterrupt: The run was interrupted; the samples taken until then are in ``rows``.
    """
    clock = clock_for(settings.devices)
    warm_up_counter()
    deadline_s = clock.now_s() + settings.max_time_s
    cases = [(block, size) for block in blocks for size in settings.batch_sizes or (None,)]
    for place, (block, size) in enumerate(cases):
        # What one case leaves of its share goes to those behind it.
        share_s = max(0.0, deadline_s - clock.now_s()) / (len(cases) - place)
        _bench_case(_CaseRun(block, size, settings, clock, share_s, len(cases)), rows, report)


@contextlib.contextmanager
def thread_setting(threads: int | None) -> Iterator[None]:
    """Let one operation use this many threads for a while.

    Args:
        threads: How many, or None to change nothing.
    """
    before = torch.get_num_threads()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True, slots=True)
class _CaseRun:
    """One block at one batch size, with the share of time that it may take."""

    block: PreparedBlock
    batch_size: int | None
    settings: Settings
    clock: Clock
    share_s: float
    cases: int

    @property
    def on_cuda(self) -> bool:
        return self.settings.devices[0].type == "cuda"


def _bench_case(run: _CaseRun, rows: list[PassResult], report: Callable[[str], None]) -> None:
    started_s = run.clock.now_s()
    try:
        block = run.block
        if run.batch_size is not None:
            if run.settings.devices[0].type == "cpu":
                check_headroom(block.inputs, batch_size_of(block), run.batch_size, available_bytes())
            block = replace(block, inputs=block.resized(run.batch_size))
        shared = _describe_case(run, block)
    # An input that cannot be made is a row like any other; see the engine.
    except Exception as error:  # noqa: BLE001
        rows.extend(_failed_rows(run, describe_failure(error)))
        return
    limits = Limits(
        deadline_s=started_s + run.share_s,
        min_time_s=run.settings.min_time_s / run.cases,
        sample_s=_SAMPLE_S[run.settings.devices[0].type],
    )
    engine = Engine(
        _subjects(block, run.settings),
        run.clock,
        limits,
        seed=run.settings.seed,
        report=lambda label: report(f"{block.name}, batch {shared.batch_size}: {label}"),
        recover=lambda: _give_memory_back(cuda=run.on_cuda),
    )
    interrupted = False
    try:
        with torch.random.fork_rng([device.index for device in run.settings.devices if run.on_cuda]):
            torch.manual_seed(run.settings.seed)
            engine.open()
            shared = replace(shared, flops=_flops(engine, block))
            engine.sample()
            if run.on_cuda:
                shared = replace(shared, memory=_memory(engine, run.settings))
    except KeyboardInterrupt:
        interrupted = True
    found = [make_row(shared, series) for series in _in_order(engine.series(), run.settings.passes)]
    if not interrupted:
        rows.extend(found)
        return
    rows.extend(_cut_short(row) for row in found if row.samples_s or row.failure)
    raise KeyboardInterrupt


def _cut_short(row: PassResult) -> PassResult:
    """Leave out the advice to allow more time: it was not the limit that ended the run."""
    return replace(row, warnings=tuple(one for one in row.warnings if one.code != "too-few-samples"))


def _subjects(block: PreparedBlock, settings: Settings) -> list[Subject]:
    """Choose the exercises that yield the passes that are wanted."""

    def build(kind: Callable[[nn.Module, Sequence[Tensor]], Exercise]) -> Callable[[], Exercise]:
        def make() -> Exercise:
            module, inputs = private_copy(block.module, block.inputs)
            return kind(spread(module, settings.devices) if settings.parallel == "dp" else module, inputs)

        return make

    subjects = []
    if "inference" in settings.passes:
        subjects.append(Subject("inference", ("inference",), build(Inference)))
    forward = Subject("forward", ("forward",), build(Forward))
    if "backward" in settings.passes or "step" in settings.passes:
        fallback = forward if "forward" in settings.passes else None
        subjects.append(Subject("step", ("forward", "backward", "step"), build(Training), fallback))
    elif "forward" in settings.passes:
        subjects.append(forward)
    return subjects


def _in_order(series: Sequence[Series], passes: Sequence[PassName]) -> list[Series]:
    by_name = {one.pass_name: one for one in series}
    return [by_name[name] for name in PASSES if name in passes and name in by_name]


def _flops(engine: Engine, block: PreparedBlock) -> dict[PassName, int]:
    """Count operations, unless the calls it takes are too dear for the time that is left."""
    cost_s = engine.cheapest_call_s()
    if not engine.exercises() or cost_s > _SHARE_FOR_COUNTING * engine.time_left_s():
        return {}
    training = next((one for one in engine.exercises() if isinstance(one, Training)), None)
    return count_flops(block, training)


def _memory(engine: Engine, settings: Settings) -> dict[PassName, MemoryUse]:
    allocator = CudaAllocator(settings.devices)
    found: dict[PassName, MemoryUse] = {}
    for exercise in engine.exercises():
        found |= measure_memory(exercise, allocator)
    return found


def _describe_case(run: _CaseRun, block: PreparedBlock) -> Case:
    return Case(
        name=block.name,
        target=block.target,
        device=",".join(map(str, run.settings.devices)),
        parallel=run.settings.parallel,
        dtype=_dtype_of(block),
        batch_size=batch_size_of(block),
        timer_s=mark_cost_s(run.clock),
        max_time_s=run.settings.max_time_s,
        warnings=tuple(_shared_warnings(run, block)),
    )


def _failed_rows(run: _CaseRun, failure: Failure) -> Iterator[PassResult]:
    """Give the rows of a block that did not even get its input."""
    case = Case(
        name=run.block.name,
        target=run.block.target,
        device=",".join(map(str, run.settings.devices)),
        parallel=run.settings.parallel,
        dtype=_dtype_of(run.block),
        batch_size=run.batch_size or batch_size_of(run.block),
        timer_s=0.0,
        max_time_s=run.settings.max_time_s,
    )
    for name in PASSES:
        if name in run.settings.passes:
            yield make_row(case, Series(name, (), (), 0, None, failure))


def _shared_warnings(run: _CaseRun, block: PreparedBlock) -> Iterator[BenchWarning]:
    settings = run.settings
    slow = denormals(block.module, block.inputs)
    if slow:
        where = max(slow, key=lambda name: slow[name])
        yield BenchWarning("denormal", {"count": sum(slow.values()), "where": where, "places": len(slow)})
    workers = len(settings.devices)
    threads, cores = torch.get_num_threads(), usable_cores()
    if workers * threads > cores and settings.devices[0].type == "cpu":
        yield BenchWarning("oversubscribed", {"workers": workers, "threads": threads, "cores": cores})
    if settings.parallel == "dp" and workers == 1:
        yield BenchWarning("one-device", {"device": str(settings.devices[0])})


def _dtype_of(block: PreparedBlock) -> str:
    """Name the floating point type that the block computes in, as ``float32``."""
    tensors = (*block.module.parameters(), *block.inputs)
    floating = [tensor.dtype for tensor in tensors if tensor.is_floating_point()]
    dtypes = floating or [tensor.dtype for tensor in block.inputs]
    return str(dtypes[0]).removeprefix("torch.") if dtypes else "float32"


def batch_size_of(block: PreparedBlock) -> int:
    """Give how many items the first input has; 1 where it has no dimension to count them.

    Args:
        block: A block with its inputs.
    """
    if not block.inputs or block.inputs[0].dim() <= block.batch_dim:
        return 1
    return int(block.inputs[0].size(block.batch_dim))


def _give_memory_back(*, cuda: bool) -> None:
    """Free what a failed call has left, so that the next size finds all there is."""
    gc.collect()
    if cuda:
        torch.cuda.empty_cache()
