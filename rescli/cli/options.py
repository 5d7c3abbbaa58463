"""The options that commands share: each is declared once, checked once and means the same everywhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable  # noqa: TC003 - Typer evaluates the annotations of completions
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rescli.cli.console import check_writable
from rescli.errors import CommandLineError
from rescli.spec.request import FLOATING_DTYPES, Request
from rescli.spec.shape import parse_input
from rescli.spec.target import shipped_specs

if TYPE_CHECKING:
    from collections.abc import Sequence

# What a file's ending says about the format that was meant.
_FORMAT_OF_ENDING = {
    ".json": "json",
    ".txt": "text",
    ".log": "text",
    ".csv": "csv",
    ".md": "markdown",
    ".mmd": "mermaid",
    ".dot": "dot",
    ".gv": "dot",
    ".svg": "svg",
    ".html": "html",
    ".htm": "html",
}
_DEVICE = re.compile(r"auto|cpu|cuda(:\d+)?|mps")
_KEYWORD = re.compile(r"[^\W\d]\w*")


def complete_target(incomplete: str) -> Iterable[str]:
    """Suggest shipped specs, folders and Python files for the shell's completion.

    Args:
        incomplete: What stands on the line so far.
    """
    yield from (spec.name for spec in shipped_specs() if spec.name.startswith(incomplete))
    folder, slash, start = incomplete.rpartition("/")
    for path in sorted(Path(folder + slash).glob("*")):
        if path.name.startswith(start) and (path.suffix == ".py" or path.is_dir()):
            yield f"{folder}{slash}{path.name}{'/' if path.is_dir() else ''}"


def _check_dtype(value: str | None) -> str | None:
    if value is not None and value not in FLOATING_DTYPES:
        raise CommandLineError(
            f"--dtype {value}: this is no floating point type of PyTorch",
            hint=f"one of {', '.join(FLOATING_DTYPES)}",
        )
    return value


def _check_device(value: str | None) -> str | None:
    if value is not None and not _DEVICE.fullmatch(value):
        raise CommandLineError(
            f"--device {value}: this is no device that rescli knows",
            hint="one of auto, cpu, cuda, cuda:1, mps",
        )
    return value


def _check_output(value: Path | None) -> Path | None:
    if value is None or str(value) == "-":  # as everywhere, the standard output
        return None
    check_writable(value)
    return value


_TARGET_HELP = "spec.py, spec.py:name, package.module:name, or a shipped spec (`rescli specs` lists them)."

TargetsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TARGET",
        show_default=False,
        autocompletion=complete_target,
        help=_TARGET_HELP,
    ),
]
RequiredTargetsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="TARGET",
        show_default=False,
        autocompletion=complete_target,
        help=_TARGET_HELP,
    ),
]
InputOption = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="SHAPE",
        show_default=False,
        help="Shape of the input: 8x64, 4x64x100, 2x16:int64. Repeat it for several inputs.",
    ),
]
BatchSizeOption = Annotated[
    int | None,
    typer.Option(
        "--batch-size",
        metavar="N",
        min=1,
        show_default=False,
        help="Size of the batch dimension of the input (8 where the input is worked out from the layers).",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        show_default=False,
        help="Argument for the spec's factory, a Python literal: width=64, name=\"'tall'\". Repeatable.",
    ),
]
DtypeOption = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        metavar="DTYPE",
        callback=_check_dtype,
        show_default=False,
        help="Floating point type of the block and its input: float32, bfloat16, ...",
    ),
]
DeviceOption = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="DEVICE",
        callback=_check_device,
        help="Where it runs: auto, cpu, cuda, cuda:1, mps.",
    ),
]
SeedOption = Annotated[
    int,
    typer.Option(
        "--seed", metavar="N", min=0, max=2**63 - 1, help="Seed of the weights and the input values."
    ),
]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        callback=_check_output,
        show_default=False,
        help="Write the result to FILE, whole or not at all; its ending tells the format; - is the standard output.",
    ),
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress and no notes, only the result.")
]
AllOption = Annotated[bool, typer.Option("--all", help="Take every shipped spec.")]


def format_option(*formats: str) -> typer.models.OptionInfo:
    """Declare the ``--format`` of a command.

    It stands in the annotation of the parameter: ``Annotated[str | None, format_option("text", "json")]``.

    Args:
        formats: What the command can write; the first is what it writes by default.
    """

    def check(value: str | None) -> str | None:
        if value is not None and value not in formats:
            raise CommandLineError(
                f"--format {value}: this command does not write that", hint=f"one of {', '.join(formats)}"
            )
        return value

    def complete(incomplete: str) -> list[str]:
        return [name for name in formats if name.startswith(incomplete)]

    option: typer.models.OptionInfo = typer.Option(
        "--format",
        metavar="|".join(formats),
        callback=check,
        autocompletion=complete,
        show_default=False,
        help=f"How the result is written; {formats[0]} unless the ending of --output says otherwise.",
    )
    return option


def choose_format(given: str | None, output: Path | None, formats: Sequence[str]) -> str:
    """Settle the format of a result.

    Args:
        given: What ``--format`` said, if anything; it wins.
        output: The file that will be written; its ending comes next.
        formats: What the command can write; the first is the default.

    Raises:
        CommandLineError: The ending means no format, or one that this command cannot write.

    Example:
        >>> choose_format(None, Path("graph.json"), ("text", "json"))
        'json'
    """
    if given is not None:
        return given
    if output is None:
        return formats[0]
    ending = output.suffix.lower()
    if ending and ending not in _FORMAT_OF_ENDING:
        known = [known for known, name in _FORMAT_OF_ENDING.items() if name in formats]
        raise CommandLineError(
            f"--output {output}: the ending {ending} tells no format",
            hint=f"one of {', '.join(known)}, or give --format {', '.join(formats)}",
        )
    meant = _FORMAT_OF_ENDING.get(ending, formats[0])
    if meant not in formats:
        raise CommandLineError(
            f"--output {output}: the ending asks for {meant}, which this command does not write",
            hint=f"give --format {', '.join(formats)}",
        )
    return meant


def parse_settings(texts: Iterable[str]) -> dict[str, object]:
    """Read the values of ``--set``.

    Args:
        texts: Each ``key=value`` where the value is a Python literal.

    Raises:
        CommandLineError: A text has another form, or a key occurs twice.

    Example:
        >>> parse_settings(["width=64", "kinds=('a', 'b')"])
        {'width': 64, 'kinds': ('a', 'b')}
    """
    settings: dict[str, object] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or not _KEYWORD.fullmatch(key):
            raise CommandLineError(f"--set {text}: expected key=value", hint="for instance --set width=64")
        if key in settings:
            raise CommandLineError(f"--set {key} is given twice", hint="give each key once")
        try:
            settings[key] = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            raise CommandLineError(
                f"--set {text}: {value!r} is no Python literal",
                hint=f"a text needs its own quotes inside the shell's: --set \"{key}='{value}'\"",
            ) from None
    return settings


def request_from(
    *,
    inputs: Sequence[str] | None = None,
    settings: Sequence[str] | None = None,
    batch_size: int | None = None,
    dtype: str | None = None,
    device: str = "cpu",
    seed: int = 0,
    only_look: bool = False,
) -> Request:
    """Turn the common options into what the spec room is asked for.

    Args:
        inputs: The values of ``--input``.
        settings: The values of ``--set``.
        batch_size: The value of ``--batch-size``.
        dtype: The value of ``--dtype``.
        device: The value of ``--device``.
        seed: The value of ``--seed``.
        only_look: Whether the command needs no values of weights.

    Raises:
        CommandLineError: A value has the wrong form, or ``--batch-size`` comes with ``--input``.
    """
    if inputs and batch_size is not None:
        raise CommandLineError(
            "--batch-size and --input were both given: the shape already says the batch size",
            hint="give one of them",
        )
    return Request(
        settings=parse_settings(settings or ()),
        inputs=tuple(parse_input(text) for text in inputs or ()),
        batch_size=batch_size,
        dtype=dtype,
        device=device,
        seed=seed,
        only_look=only_look,
    )
