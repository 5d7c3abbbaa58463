"""``rescli check-threads``: whether a block may be called from several threads."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from rescli.cli.console import Streams, progress, write_result
from rescli.cli.exit_codes import ExitCode
from rescli.cli.options import (
    AllOption,
    BatchSizeOption,
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
from rescli.errors import CommandLineError, HardwareError
from rescli.render.threads_json import threads_json
from rescli.render.threads_text import threads_text
from rescli.threads.limits import (
    MANY_THREADS,
    MOST_TIME_S,
    SCENARIOS,
    USUAL_TIME_S,
    Limits,
)
from rescli.threads.schedule import MAX_THREADS, parse_schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rescli.spec.prepare import PreparedBlock
    from rescli.threads.result import ThreadsResult
    from rescli.threads.schedule import Schedule

_FORMATS = ("text", "json")
_POINTS = ("layers", "lines")
_DEFAULTS = Limits()


def check_threads(  # noqa: PLR0913, PLR0917 - a parameter an option
    targets: TargetsArgument = None,
    take_all: AllOption = False,
    scenario: Annotated[
        list[str] | None,
        typer.Option(
            "--scenario",
            metavar="NAME",
            show_default=False,
            autocompletion=lambda: list(SCENARIOS),
            help=f"Only this one: {', '.join(SCENARIOS)}. Repeat it, or join names with commas.",
        ),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            "--threads",
            metavar="N",
            min=2,
            max=MAX_THREADS,
            show_default=False,
            help=f"Threads, 2 to {MAX_THREADS}. [default: {_DEFAULTS.threads}, "
            f"of {', '.join(MANY_THREADS)} {_DEFAULTS.many_threads}]",
        ),
    ] = None,
    preemptions: Annotated[
        int,
        typer.Option(
            "--preemptions", metavar="N", min=0, help="The most times that a schedule interrupts a thread."
        ),
    ] = _DEFAULTS.preemptions,
    schedules: Annotated[
        int,
        typer.Option(
            "--schedules",
            metavar="N",
            min=2,
            help="The most schedules of one scenario; the seed decides which.",
        ),
    ] = _DEFAULTS.schedules,
    random_schedules: Annotated[
        int,
        typer.Option(
            "--random",
            metavar="N",
            min=0,
            help="The most random schedules of one scenario, with more interruptions than that.",
        ),
    ] = _DEFAULTS.random_schedules,
    points: Annotated[
        str,
        typer.Option(
            "--points",
            metavar="WHERE",
            help="Hand over at layers alone, or, where that shows nothing, between source lines too.",
            autocompletion=lambda: list(_POINTS),
        ),
    ] = _POINTS[-1],
    iterations: Annotated[
        int, typer.Option("--iterations", metavar="N", min=1, help="Calls of each thread of the stress.")
    ] = _DEFAULTS.iterations,
    replay: Annotated[
        str | None,
        typer.Option(
            "--replay",
            metavar="SCHEDULE",
            show_default=False,
            help="Only run this schedule again, as a failure printed it.",
        ),
    ] = None,
    max_time: Annotated[
        float | None,
        typer.Option(
            "--max-time",
            metavar="SECONDS",
            min=0.001,
            show_default=False,
            help=f"Time for one block. [default: {USUAL_TIME_S:g}, and up to {MOST_TIME_S:g} where the first few "
            "schedules of each scenario take longer]",
        ),
    ] = None,
    inputs: InputOption = None,
    batch_size: BatchSizeOption = None,
    settings: SetOption = None,
    dtype: DtypeOption = None,
    device: DeviceOption = "cpu",
    seed: SeedOption = 0,
    format_name: Annotated[str | None, format_option(*_FORMATS)] = None,
    output: OutputOption = None,
    quiet: QuietOption = False,
) -> None:
    """Test whether a block may be called from several threads.

    Threads run one at a time and hand over at the entry and exit of each layer, then between the lines of
    the spec and of torchresidual, in every order with up to two interruptions. Each has an input of its
    own, and must get bit for bit the outputs and gradients that it gets alone. The exit code is 1 if one
    does not; the schedule that is then printed can be run again with --replay. Without a TARGET the quick
    set of shipped specs is checked.
    """
    if device not in ("cpu", "auto"):
        raise HardwareError(f"--device {device}: check-threads runs on the CPU", hint="leave --device away")
    if points not in _POINTS:
        raise CommandLineError(
            f"--points {points}: there is no such place", hint=f"one of {', '.join(_POINTS)}"
        )
    request = request_from(
        inputs=inputs, settings=settings, batch_size=batch_size, dtype=dtype, device="cpu", seed=seed
    )
    format_name = choose_format(format_name, output, _FORMATS)
    limits = Limits(
        threads=threads or _DEFAULTS.threads,
        many_threads=threads or _DEFAULTS.many_threads,
        iterations=iterations,
        preemptions=preemptions,
        schedules=schedules,
        random_schedules=random_schedules,
        lines=points == "lines",
        max_time_s=max_time,
        seed=seed,
    )
    names, schedule = _chosen_scenarios(scenario), None
    if replay is not None:
        names, schedule = _chosen_replay(replay, names if scenario else (), targets or (), threads)
        limits = replace(limits, threads=schedule.threads, many_threads=schedule.threads)
    results: list[ThreadsResult] = []
    streams = Streams.detect()
    with progress(streams, quiet=quiet) as say:
        outcome = for_each_target(
            chosen_targets(targets, take_all=take_all),
            request,
            # Each result is kept as soon as it is there, in case Ctrl-C cuts the block short.
            lambda block: _check(block, names, limits, schedule, say, results),
        )
    if format_name == "json":
        write_result(threads_json(results), output)
    elif results:
        facts = streams.stdout
        to_file = output is not None
        text = threads_text(
            results,
            options=_options_again(inputs, batch_size, settings, dtype, seed),
            width=facts.width,
            ascii_only=facts.ascii and not to_file,
            color=facts.color and not to_file,
        )
        write_result(text, output)
    failed = any(result.status == "fail" for result in results)
    code = max(outcome.code, ExitCode.CHECK_FAILED if failed else ExitCode.DONE)
    if code:
        raise typer.Exit(code)


def _check(
    block: PreparedBlock,
    names: Sequence[str],
    limits: Limits,
    schedule: Schedule | None,
    say: Callable[[str], None],
    results: list[ThreadsResult],
) -> None:
    """Check one block; what it raises in a single thread is the spec's error."""
    from rescli.spec.blame import spec_error
    from rescli.threads.scenarios import SingleThreadError, check_block

    try:
        for result in check_block(block, names, limits, replay=schedule, say=say):
            results.append(result)  # noqa: PERF402 - one by one, in case the next is interrupted
    except SingleThreadError as error:
        cause = error.__cause__ or error
        message = f"{block.target} could not be run, not even in a single thread"
        raise spec_error(cause, block.spec_file, message) from cause


def _chosen_scenarios(texts: Sequence[str] | None) -> tuple[str, ...]:
    names = [name.strip() for text in texts or () for name in text.split(",")]
    for name in names:
        if name not in SCENARIOS:
            raise CommandLineError(
                f"--scenario {name}: there is no such scenario", hint=f"one of {', '.join(SCENARIOS)}"
            )
    return tuple(name for name in SCENARIOS if name in names) if names else tuple(SCENARIOS)


def _chosen_replay(
    text: str, names: Sequence[str], targets: Sequence[str], threads: int | None
) -> tuple[tuple[str, ...], Schedule]:
    """Settle the scenario and the schedule of ``--replay``, and see that nothing contradicts them."""
    name, schedule = parse_schedule(text)
    if names and tuple(names) != (name,):
        raise CommandLineError(
            f"--replay {text} belongs to the scenario {name}, --scenario says {', '.join(names)}",
            hint="leave --scenario away",
        )
    if threads not in (None, schedule.threads):
        raise CommandLineError(
            f"--replay {text} has {schedule.threads} threads, --threads says {threads}",
            hint="leave --threads away",
        )
    if len(targets) != 1:
        raise CommandLineError(
            f"--replay needs the one TARGET that the schedule was printed for, not {len(targets)}",
            hint=f"rescli check-threads TARGET --replay {text}",
        )
    return (name,), schedule


def _options_again(
    inputs: Sequence[str] | None,
    batch_size: int | None,
    settings: Sequence[str] | None,
    dtype: str | None,
    seed: int,
) -> list[str]:
    """Give the options that decide what is run, as they were typed."""
    options = [part for shape in inputs or () for part in ("--input", shape)]
    options += [part for setting in settings or () for part in ("--set", setting)]
    for name, value in (("--batch-size", batch_size), ("--dtype", dtype), ("--seed", seed or None)):
        if value is not None:
            options += [name, str(value)]
    return options
