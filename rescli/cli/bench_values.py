"""The values of ``rescli bench``'s own options, read and checked before torch is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rescli.bench.result import PASSES
from rescli.errors import CommandLineError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rescli.bench.result import PassName

PARALLEL = ("none", "dp")


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
    *,
    batch_sizes: Sequence[int],
    inputs: Sequence[str] | None,
    parallel: str,
    devices: str | None,
    compiled: bool,
) -> None:
    """Refuse options that contradict each other.

    Args:
        batch_sizes: Values of ``--batch-size``.
        inputs: Values of ``--input``.
        parallel: Value of ``--parallel``.
        devices: Value of ``--devices``.
        compiled: Whether ``--compile`` was given.

    Raises:
        CommandLineError: Two of them do.
    """
    if batch_sizes and inputs:
        raise CommandLineError(
            "--batch-size and --input were both given: the shape already says the batch size",
            hint="give one of them",
        )
    if parallel not in PARALLEL:
        raise CommandLineError(
            f"--parallel {parallel}: bench does not run that way", hint=f"one of {', '.join(PARALLEL)}"
        )
    if devices is not None and parallel != "dp":
        raise CommandLineError("--devices belongs to --parallel dp", hint="for one GPU, --device cuda:1")
    if compiled and parallel == "dp":
        raise CommandLineError(
            "--compile and --parallel dp were both given: torch.compile does not compile DataParallel",
            hint="give one of them",
        )


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
