"""The values of ``rescli bench``'s own options, read and checked before torch is there."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path  # noqa: TC003 - the example
from typing import TYPE_CHECKING

from rescli.bench.result import PASSES
from rescli.cli.console import check_writable
from rescli.errors import CommandLineError
from rescli.render.bench_plot import PLOT_FORMATS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rescli.bench.result import PassName

PARALLEL = ("none", "dp", "ddp")


def parse_passes(text: str) -> tuple[PassName, ...]:
    """Read ``--passes``, whose order does not matter.

    Args:
        text: Names of passes joined by commas.

    Raises:
        CommandLineError: One of them is no pass.

    Example:
        >>> parse_passes("step,inference")
        ('inference', 'step')
    """
    given = [part.strip() for part in text.split(",")]
    for part in given:
        if part not in PASSES:
            raise CommandLineError(f"--passes {text}: {part!r} is no pass", hint=f"among {', '.join(PASSES)}")
    return tuple(name for name in PASSES if name in given)


def parse_batch_sizes(text: str | None) -> tuple[int, ...]:
    """Read ``--batch-size``, in the order given, each once.

    Args:
        text: Numbers joined by commas, or None if the option was not given.

    Raises:
        CommandLineError: The text has another form.

    Example:
        >>> parse_batch_sizes("1,8,8,32")
        (1, 8, 32)
    """
    if text is None:
        return ()
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise CommandLineError(
            f"--batch-size {text}: expected numbers from 1, joined by commas", hint="for instance 1,8,32"
        )
    return tuple(dict.fromkeys(int(part) for part in parts))


def check_together(
    *, batch_sizes: Sequence[int], inputs: Sequence[str] | None, min_time_s: float, max_time_s: float
) -> None:
    """Refuse options that contradict each other.

    Args:
        batch_sizes: Values of ``--batch-size``.
        inputs: Values of ``--input``.
        min_time_s: Value of ``--min-time``.
        max_time_s: Value of ``--max-time``.

    Raises:
        CommandLineError: Two of them do.
    """
    if batch_sizes and inputs:
        raise CommandLineError(
            "--batch-size and --input were both given: the shape already says the batch size",
            hint="give one of them",
        )
    if min_time_s > max_time_s:
        raise CommandLineError(
            f"--min-time {min_time_s:g} --max-time {max_time_s:g}: the least time is more than the most",
            hint=f"--max-time {min_time_s:g} or longer, or a shorter --min-time",
        )


def check_parallel(parallel: str, *, devices: str | None, processes: int | None, compiled: bool) -> None:
    """Refuse what does not go with the way in which a batch is spread.

    Args:
        parallel: Value of ``--parallel``.
        devices: Value of ``--devices``.
        processes: Value of ``--processes``.
        compiled: Whether ``--compile`` was given.

    Raises:
        CommandLineError: Something does not.
    """
    if parallel not in PARALLEL:
        raise CommandLineError(
            f"--parallel {parallel}: bench does not run that way", hint=f"one of {', '.join(PARALLEL)}"
        )
    if devices is not None and parallel == "none":
        raise CommandLineError(
            "--devices belongs to --parallel dp or ddp", hint="for one GPU, --device cuda:1"
        )
    if processes is not None and parallel != "ddp":
        raise CommandLineError(
            "--processes belongs to --parallel ddp",
            hint="--parallel dp takes --devices: one process, many GPUs",
        )
    if compiled and parallel == "dp":
        raise CommandLineError(
            "--compile and --parallel dp were both given: torch.compile does not compile DataParallel",
            hint="give one of them, or --parallel ddp",
        )


def plot_format(path: Path) -> str:
    """Read from the ending of ``--plot FILE`` what is to be drawn, and find out whether it can be.

    Args:
        path: Value of ``--plot``.

    Raises:
        CommandLineError: It has another ending, or matplotlib is not installed.
        FileError: The file cannot be written.

    Example:
        >>> plot_format(Path("picture.bmp"))
        Traceback (most recent call last):
            ...
        rescli.errors.CommandLineError: --plot picture.bmp: the ending says no format that can be drawn
    """
    file_format = path.suffix.lower().removeprefix(".")
    if file_format not in PLOT_FORMATS:
        raise CommandLineError(
            f"--plot {path}: the ending says no format that can be drawn",
            hint=f"one of {', '.join(f'.{name}' for name in PLOT_FORMATS)}",
        )
    if find_spec("matplotlib") is None:
        raise CommandLineError(
            "--plot needs matplotlib, which is not installed", hint="pip install 'rescli[plot]'"
        )
    check_writable(path)
    return file_format


def check_threshold(*, baseline: object, fail_above: float | None, force: bool) -> None:
    """Refuse what only means something with a baseline where there is none.

    Args:
        baseline: Value of ``--baseline``.
        fail_above: Value of ``--fail-above``.
        force: Whether ``--force`` was given.

    Raises:
        CommandLineError: There is no baseline.
    """
    given = "--fail-above" if fail_above is not None else "--force" if force else ""
    if given and baseline is None:
        raise CommandLineError(
            f"{given} belongs to --baseline", hint="--baseline FILE names a run saved with --save"
        )
