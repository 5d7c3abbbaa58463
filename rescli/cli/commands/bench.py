"""``rescli bench``: how long the passes of a block take."""

from __future__ import annotations

import contextlib
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from rescli.bench.result import PASSES
from rescli.cli.console import Streams, progress, write_result
from rescli.cli.errors import show_traceback, write_error
from rescli.cli.exit_codes import ExitCode
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
from rescli.cli.targets import chosen_targets, for_each_target
from rescli.errors import CommandLineError, SpecError
from rescli.render.bench_json import bench_json
from rescli.render.bench_text import bench_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rescli.bench.result import BenchResult, PassName, PassResult
    from rescli.bench.session import Settings
    from rescli.spec.request import Request

_FORMATS = ("text", "json")
_PARALLEL = ("none", "dp")
# A terminal needs no more than this, and samples come every millisecond.
_SECONDS_BETWEEN_REPORTS = 0.1


def bench(  # noqa: PLR0913, PLR0917 - a parameter an option
    targets: TargetsArgument = None,
    take_all: AllOption = False,
    device: DeviceOption = "auto",
    parallel: Annotated[
        str,
        typer.Option("--parallel", metavar="|".join(_PARALLEL), help="dp: nn.DataParallel over the GPUs."),
    ] = "none",
    devices: Annotated[
        str | None,
        typer.Option(
            "--devices",
            metavar="N,N",
            show_default=False,
            help="The GPUs that --parallel dp spreads the batch over; all of them without it.",
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
            help="Threads that one operation may use on the CPU.",
        ),
    ] = None,
    min_time: Annotated[
        float,
        typer.Option("--min-time", metavar="SECONDS", min=0.0, help="Least sampling time for each target."),
    ] = 0.5,
    max_time: Annotated[
        float, typer.Option("--max-time", metavar="SECONDS", min=0.001, help="Most time for each target.")
    ] = 10.0,
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
    """
    chosen_passes = _parse_passes(passes)
    batch_sizes = _parse_batch_sizes(batch_size)
    if batch_sizes and inputs:
        raise CommandLineError(
            "--batch-size and --input were both given: the shape already says the batch size",
            hint="give one of them",
        )
    if parallel not in _PARALLEL:
        raise CommandLineError(
            f"--parallel {parallel}: bench does not run that way", hint=f"one of {', '.join(_PARALLEL)}"
        )
    if devices is not None and parallel != "dp":
        raise CommandLineError("--devices belongs to --parallel dp", hint="for one GPU, --device cuda:1")
    format_name = choose_format(format_name, output, _FORMATS)
    names = chosen_targets(targets, take_all=take_all)

    import torch

    from rescli.bench.session import Settings

    places = _places(device, parallel, devices)
    request = request_from(inputs=inputs, settings=settings, dtype=dtype, device=str(places[0]), seed=seed)
    how = Settings(
        devices=tuple(map(torch.device, places)),
        passes=chosen_passes,
        batch_sizes=batch_sizes,
        parallel=parallel,
        threads=threads,
        min_time_s=min_time,
        max_time_s=max_time,
        seed=seed,
    )
    streams = Streams.detect()
    with progress(streams, quiet=quiet) as say:
        result, code = _measure(names, request, how, _now_and_then(say))
    if format_name == "json":
        text = bench_json(result)
    elif output is not None:
        text = bench_text(result)
    else:
        facts = streams.stdout
        text = bench_text(result, width=facts.width, ascii_only=facts.ascii, color=facts.color)
    write_result(text, output)
    if code:
        raise typer.Exit(code)


def _parse_passes(text: str) -> tuple[PassName, ...]:
    """Read ``--passes``, whose order does not matter."""
    given = [part.strip() for part in text.split(",")]
    for part in given:
        if part not in PASSES:
            raise CommandLineError(f"--passes {text}: {part!r} is no pass", hint=f"among {', '.join(PASSES)}")
    return tuple(name for name in PASSES if name in given)


def _parse_batch_sizes(text: str | None) -> tuple[int, ...]:
    """Read ``--batch-size``, in the order given, each once."""
    if text is None:
        return ()
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise CommandLineError(
            f"--batch-size {text}: expected numbers from 1, joined by commas", hint="for instance 1,8,32"
        )
    return tuple(dict.fromkeys(int(part) for part in parts))


def _places(device: str, parallel: str, devices: str | None) -> tuple[str, ...]:
    """Name the devices to run on; the output arrives on the first."""
    from rescli.bench.devices import Inventory, choose_device, choose_parallel_devices, parse_indices

    inventory = Inventory.look()
    if parallel == "none":
        return (str(choose_device(device, inventory)),)
    indices = parse_indices(devices) if devices is not None else ()
    return tuple(map(str, choose_parallel_devices(device, indices, inventory)))


def _measure(
    names: Sequence[str], request: Request, how: Settings, report: Callable[[str], None]
) -> tuple[BenchResult, ExitCode]:
    """Measure one target after the other; an interruption keeps what there is."""
    from rescli.bench.environment import describe_environment
    from rescli.bench.result import BenchResult
    from rescli.bench.session import bench_blocks, thread_setting

    rows: list[PassResult] = []
    codes = [ExitCode.DONE]
    with thread_setting(how.threads):
        environment = describe_environment()
        try:
            for place, name in enumerate(names):
                report(f"{name}: loading")
                prepared = for_each_target((name,), request, lambda block: block)
                codes.append(prepared.code)
                if prepared.code == ExitCode.INTERRUPTED:
                    break
                count = f"[{place + 1}/{len(names)}]" if len(names) > 1 else ""
                first = len(rows)
                # What a block prints would end up in the middle of the result.
                with contextlib.redirect_stdout(sys.stderr):
                    bench_blocks(prepared.results, how, rows, report=partial(_report_place, report, count))
                codes.extend(_complain(rows[first:]))
        except KeyboardInterrupt:
            codes.append(ExitCode.INTERRUPTED)
    code = max(codes)
    return BenchResult(environment, tuple(rows), interrupted=code == ExitCode.INTERRUPTED), code


def _report_place(report: Callable[[str], None], count: str, text: str) -> None:
    report(f"{count} {text}".lstrip())


def _complain(rows: Sequence[PassResult]) -> Iterator[ExitCode]:
    """Tell of the blocks of which nothing could be measured because they cannot be run."""
    for target in dict.fromkeys(row.target for row in rows):
        of_target = [row for row in rows if row.target == target]
        failures = [row.failure for row in of_target if row.failure and row.failure.code == "failed"]
        if failures and not any(row.samples_s for row in of_target):
            failure = failures[0]
            last_line = f"{failure.error}: {failure.message}"
            whole = failure.whole_trace if show_traceback.get() else f"{failure.trace}{last_line}"
            write_error(SpecError(f"{target} could not be run", details=whole))
            yield ExitCode.SPEC


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
