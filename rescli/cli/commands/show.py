"""``rescli show``: what a block is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rescli.cli.console import Streams, progress, write_note, write_result
from rescli.cli.options import (
    BatchSizeOption,
    DeviceOption,
    DtypeOption,
    InputOption,
    OutputOption,
    QuietOption,
    RequiredTargetsArgument,
    SeedOption,
    SetOption,
    choose_format,
    format_option,
    request_from,
)
from rescli.cli.targets import for_each_target
from rescli.collecting import rarely_collected
from rescli.errors import CommandLineError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rescli.cli.console import StreamFacts
    from rescli.graph.model import Failure
    from rescli.graph.outline.model import ShownBlock
    from rescli.spec.prepare import PreparedBlock

_FORMATS = ("text", "json")


def show(  # noqa: PLR0913, PLR0917 - a parameter an option
    targets: RequiredTargetsArgument,
    depth: Annotated[
        int | None,
        typer.Option(
            "--depth",
            metavar="N",
            min=1,
            show_default=False,
            help="Sum up what lies deeper than N levels; 1 is the block's own layers (text only).",
        ),
    ] = None,
    fold: Annotated[
        bool,
        typer.Option("--fold/--no-fold", help="Show equal neighbours once, as Block x 12 (text only)."),
    ] = True,
    layers: Annotated[
        bool, typer.Option("--layers", help="Add torchinfo's table of layers below each block (text only).")
    ] = False,
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
    """Show the Record/Apply graph of a block, its skips and what they cost.

    A copy of the block is run once, without gradients and in evaluation mode; the block itself stays as it
    is. Blocks of more than 20 million parameters run without data and take no memory. Of a block that
    cannot run, everything up to the layer that fails is shown, and the exit code is 3. JSON always has every
    layer.
    """
    request = request_from(
        inputs=inputs,
        settings=settings,
        batch_size=batch_size,
        dtype=dtype,
        device=device,
        seed=seed,
        only_look=True,
    )
    format_name = choose_format(format_name, output, _FORMATS)
    if layers and format_name != "text":
        raise CommandLineError(
            f"--layers adds a table to text, and {format_name} was asked for",
            hint="leave --layers away: the document has every layer anyway",
        )
    if depth is not None and format_name != "text" and not quiet:
        write_note(f"Note: --depth shortens text alone; {format_name} has every level.")
    streams = Streams.detect()
    shown: list[ShownBlock] = []

    def look(block: PreparedBlock) -> None:
        from rescli.graph.layer_table import layer_table
        from rescli.graph.outline.build import outline
        from rescli.graph.outline.model import ShownBlock
        from rescli.graph.trace import trace_with_error
        from rescli.spec.blame import spec_error

        say(f"{block.target} ...")
        traced = trace_with_error(
            block.module,
            block.inputs,
            name=block.name,
            target=block.target,
            origin=block.origin,
            with_data=block.with_data,
        )
        table = layer_table(block.module, block.inputs) if layers and not traced.error else ""
        shown.append(ShownBlock(traced.graph, outline(traced.graph, depth=depth, fold=fold), table))
        if traced.error is not None and traced.graph.failure is not None:
            message = _stopped(block.target, traced.graph.failure)
            raise spec_error(traced.error, block.spec_file, message) from traced.error

    with rarely_collected():
        with progress(streams, quiet=quiet) as say:
            outcome = for_each_target(targets, request, look)
        if shown:
            write_result(_written(shown, streams.stdout, output, is_json=format_name == "json"), output)
    if outcome.code:
        raise typer.Exit(outcome.code)


def _stopped(target: str, failure: Failure) -> str:
    place = f" at {failure.path!r}" if failure.path else ""
    given = f", given {failure.input}" if failure.input else ""
    return f"{target} could not be run: {failure.type or 'the block'}{place} failed{given}"


def _written(shown: Sequence[ShownBlock], facts: StreamFacts, output: Path | None, *, is_json: bool) -> str:
    # Not above: a wrong command line is told without it.
    from rescli.render.show_json import render_show_json
    from rescli.render.show_text import render_show_text
    from rescli.render.style import Style

    if is_json:
        return render_show_json([each.graph for each in shown])
    return render_show_text(
        shown, Style(facts.width, facts.color, facts.ascii) if output is None else Style()
    )
