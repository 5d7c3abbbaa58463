"""``rescli bench``: how long the passes of a block take."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from pathlib import Path  # noqa: TC003 - Typer evaluates the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from rescli.bench.baseline import read_baseline
from rescli.bench.place import told_place
from rescli.bench.result import PASSES
from rescli.cli.bench_group import Member, check_group_size, membership, start
from rescli.cli.bench_run import Job, measure, tell_of_the_baseline, without_complaints
from rescli.cli.bench_values import (
    PARALLEL,
    check_parallel,
    check_threshold,
    check_together,
    parse_batch_sizes,
    parse_passes,
    plot_format,
)
from rescli.cli.console import Streams, check_writable, progress, write_file, write_result
from rescli.cli.options import (
    AllOption,
    DeviceOption,
    DtypeOption,
    InputOption,
    OutputOption,
    QuietOption,
    SeedOption,
    SetOption,
    TargetsArgument,
    choose_format,
    format_option,
    request_from,
)
from rescli.cli.targets import chosen_targets
from rescli.cli.typed import typed_arguments
from rescli.render.bench_csv import bench_csv
from rescli.render.bench_json import bench_json
from rescli.render.bench_markdown import bench_markdown
from rescli.render.bench_plot import bench_plot
from rescli.render.bench_text import bench_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from rescli.bench.result import BenchResult

_FORMATS = ("text", "json", "csv", "markdown")
_WRITERS = {"json": bench_json, "csv": bench_csv, "markdown": bench_markdown}
_DEFAULT_PERCENT = 5.0
_LEAST_SAMPLING_S = 0.5
# A terminal needs no more than this, and samples come every millisecond.
_SECONDS_BETWEEN_REPORTS = 0.1


def bench(  # noqa: PLR0913, PLR0917 - a parameter an option
    targets: TargetsArgument = None,
    take_all: AllOption = False,
    device: DeviceOption = "auto",
    parallel: Annotated[
        str,
        typer.Option(
            "--parallel",
            metavar="|".join(PARALLEL),
            help="dp: nn.DataParallel over the GPUs; ddp: DistributedDataParallel in several processes.",
        ),
    ] = "none",
    devices: Annotated[
        str | None,
        typer.Option(
            "--devices",
            metavar="N,N",
            show_default=False,
            help="The GPUs that --parallel spreads the batch over; all of them without it.",
        ),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(
            "--processes",
            metavar="N",
            min=1,
            show_default=False,
            help="Processes of --parallel ddp: one for each GPU, or 2 on the CPU, without it.",
        ),
    ] = None,
    passes: Annotated[
        str, typer.Option("--passes", metavar="PASS,...", help="Which passes to measure.")
    ] = ",".join(PASSES),
    batch_size: Annotated[
        str | None,
        typer.Option(
            "--batch-size",
            metavar="N[,N...]",
            show_default=False,
            help="Size of the batch; several are measured one after the other.",
        ),
    ] = None,
    inputs: InputOption = None,
    settings: SetOption = None,
    dtype: DtypeOption = None,
    threads: Annotated[
        int | None,
        typer.Option(
            "--threads",
            metavar="N",
            min=1,
            show_default=False,
            help="Threads that one operation may use on the CPU, in each process.",
        ),
    ] = None,
    versus: Annotated[
        str,
        typer.Option(
            "--versus",
            metavar="none|plain|TARGET",
            help="Measure beside it, in turns, the same block without its skips, or another block.",
        ),
    ] = "none",
    amp: Annotated[
        bool, typer.Option("--amp", help="Under autocast, in PyTorch's type for the device.")
    ] = False,
    compiled: Annotated[
        bool, typer.Option("--compile", help="Through torch.compile; what compiling takes is told apart.")
    ] = False,
    channels_last: Annotated[
        bool, typer.Option("--channels-last", help="Weights and images laid out channels last.")
    ] = False,
    min_time: Annotated[
        float | None,
        typer.Option(
            "--min-time",
            metavar="SECONDS",
            min=0.0,
            show_default=False,
            help="Least sampling time for each target (0.5, if --max-time is not less).",
        ),
    ] = None,
    max_time: Annotated[
        float, typer.Option("--max-time", metavar="SECONDS", min=0.001, help="Most time for each target.")
    ] = 10.0,
    save: Annotated[
        Path | None,
        typer.Option(
            "--save",
            metavar="FILE",
            show_default=False,
            help="Save the run with all its samples, for --baseline.",
        ),
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(
            "--baseline",
            metavar="FILE",
            show_default=False,
            help="Compare with a saved run; exit code 1 if a pass has become slower.",
        ),
    ] = None,
    fail_above: Annotated[
        float | None,
        typer.Option(
            "--fail-above",
            metavar="PERCENT",
            min=0.0,
            show_default=False,
            help="How much slower than --baseline is too slow; the whole 95% interval must be (5).",
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Take a --baseline of another CPU, GPU, PyTorch, thread setting or dtype."
        ),
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot",
            metavar="FILE",
            show_default=False,
            help="Draw all samples, or the times over --batch-size: .png, .svg or .pdf.",
        ),
    ] = None,
    seed: SeedOption = 0,
    format_name: Annotated[str | None, format_option(*_FORMATS)] = None,
    output: OutputOption = None,
    quiet: QuietOption = False,
) -> None:
    """Measure how long the passes of a block take.

    inference runs in eval mode without autograd, forward in training mode with it; backward is timed apart
    in the same call, and step is both together, without an optimizer. A row has the median time of one call
    and the interval that holds the true one in 95 of 100 cases; sampling ends early when that is narrow.
    Without a TARGET the quick set of shipped specs is measured.

    With --versus, both are measured in turns and compared by the ratio of their times: faster or slower only
    if its whole 95% interval is more than 1% away from one, same if it lies within 1%, else inconclusive.

    With --parallel, the batch is shared out, and the block on one device with the whole batch is measured in
    turns with it: the speed-up, and the share of it that each device could have given.
    """
    chosen_passes = parse_passes(passes)
    batch_sizes = parse_batch_sizes(batch_size)
    least_s = min(_LEAST_SAMPLING_S, max_time) if min_time is None else min_time
    check_together(batch_sizes=batch_sizes, inputs=inputs, min_time_s=least_s, max_time_s=max_time)
    check_parallel(parallel, devices=devices, processes=processes, compiled=compiled)
    check_threshold(baseline=baseline, fail_above=fail_above, force=force)
    format_name = choose_format(format_name, output, _FORMATS)
    if save is not None:
        check_writable(save)
    picture = plot_format(plot) if plot is not None else ""
    names = chosen_targets(targets, take_all=take_all)
    saved = read_baseline(baseline) if baseline is not None else None

    import torch

    from rescli.bench.modes import Modes
    from rescli.bench.settings import Settings

    places = _places(device, parallel, devices, processes)
    # Before other processes start: what is wrong with it is told once.
    request = request_from(inputs=inputs, settings=settings, dtype=dtype, device=places[0], seed=seed)
    here, membership_here = _group(parallel, places, threads)
    with membership_here as member:
        how = Settings(
            devices=tuple(map(torch.device, here)),
            passes=chosen_passes,
            batch_sizes=batch_sizes,
            modes=Modes(amp, compiled, channels_last, parallel),
            threads=threads,
            min_time_s=least_s,
            max_time_s=max_time,
            seed=seed,
            peers=member.peers,
            group_devices=tuple(dict.fromkeys(places)) if member.peers is not None else (),
            is_interrupted=member.is_interrupted,
        )
        percent = _DEFAULT_PERCENT if fail_above is None else fail_above
        request = replace(request, device=here[0])
        job = Job(names, request, how, versus, saved, percent / 100, force, member.words)
        streams = Streams.detect()
        with progress(streams, quiet=quiet) as say:
            result, code = measure(job, _now_and_then(say))
        if member.reports:
            if save is not None:
                write_file(save, bench_json(result, with_samples=True))
            if plot is not None:
                write_file(plot, bench_plot(result, picture))
            _write(result, format_name, output, streams)
            if saved is not None and not quiet:
                tell_of_the_baseline(result, percent)
        if code:
            raise typer.Exit(code)


def _write(result: BenchResult, format_name: str, output: Path | None, streams: Streams) -> None:
    if format_name in _WRITERS:
        text = _WRITERS[format_name](result)
    elif output is not None:
        text = bench_text(result)
    else:
        # On a terminal the errors stand beside it.
        result = without_complaints(result)
        facts = streams.stdout
        text = bench_text(result, width=facts.width, ascii_only=facts.ascii, color=facts.color)
    write_result(text, output)


def _places(device: str, parallel: str, devices: str | None, processes: int | None) -> tuple[str, ...]:
    """Name the devices to run on: with dp the output arrives on the first, with ddp each process has one."""
    from rescli.bench.devices import choose_parallel_devices, choose_process_devices, parse_indices
    from rescli.spec.device import Inventory, choose_device

    inventory = Inventory.look()
    if parallel == "none":
        return (str(choose_device(device, inventory)),)
    indices = parse_indices(devices) if devices is not None else ()
    if parallel == "dp":
        return tuple(map(str, choose_parallel_devices(device, indices, inventory)))
    place = told_place()
    if place is not None:
        check_group_size(processes, place)
        processes = place.local_size
    return tuple(map(str, choose_process_devices(device, indices, processes, inventory)))


def _group(
    parallel: str, places: tuple[str, ...], threads: int | None
) -> tuple[tuple[str, ...], AbstractContextManager[Member]]:
    """Give the devices of this process, and its membership in a group; a group that is not there yet is started.

    Raises:
        typer.Exit: All was done by processes that were started for it.
    """
    if parallel != "ddp":
        return places, contextlib.nullcontext(Member())
    place = told_place()
    if place is None:
        raise typer.Exit(start(typed_arguments.get(), len(places), threads))
    import torch

    here = places[place.local_rank]
    return (here,), membership(place, torch.device(here))


def _now_and_then(say: Callable[[str], None]) -> Callable[[str], None]:
    """Pass on one report in a while: writing to a terminal takes time from the samples."""
    last_s = -1.0

    def report(text: str) -> None:
        nonlocal last_s
        now_s = time.monotonic()
        if now_s - last_s >= _SECONDS_BETWEEN_REPORTS:
            last_s = now_s
            say(text)

    return report
