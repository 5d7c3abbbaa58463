"""``rescli lint``: what is wrong with a block, or worth knowing."""

from __future__ import annotations

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
from rescli.collecting import rarely_collected
from rescli.graph.model import LintedBlock
from rescli.render.lint_json import render_lint_json
from rescli.render.lint_text import render_lint_text
from rescli.render.style import Style

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rescli.spec.prepare import PreparedBlock

_FORMATS = ("text", "json")


def lint(  # noqa: PLR0913, PLR0917 - a parameter an option
    targets: TargetsArgument = None,
    take_all: AllOption = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 for warnings as well, not only for errors.")
    ] = False,
    backward: Annotated[
        bool,
        typer.Option("--run", help="Run a backward pass too, to find parameters that get no gradient."),
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
    """Say what is wrong with a block, or worth knowing.

    A copy of the block is run once, and its structure is read; the block itself stays as it is. The exit
    code is 1 if there is an error, with --strict also for a warning. A block that cannot run gets what its
    structure tells, and the layer that fails is named. docs/DIAGNOSTICS.md explains each code. Without a
    TARGET the quick set of shipped specs is looked at.
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
    streams = Streams.detect()

    def look(block: PreparedBlock) -> LintedBlock:
        from rescli.graph.trace import trace

        say(f"{block.target} ...")
        graph = trace(
            block.module,
            block.inputs,
            name=block.name,
            target=block.target,
            origin=block.origin,
            backward=backward,
            with_data=block.with_data,
        )
        return LintedBlock(block.name, block.target, graph.diagnostics)

    with progress(streams, quiet=quiet) as say, rarely_collected():
        outcome = for_each_target(chosen_targets(targets, take_all=take_all), request, look)
    if outcome.results:
        facts = streams.stdout
        style = Style(facts.width, facts.color, facts.ascii) if output is None else Style()
        is_json = format_name == "json"
        text = render_lint_json(outcome.results) if is_json else render_lint_text(outcome.results, style)
        write_result(text, output)
    code = max(outcome.code, _code_of(outcome.results, strict=strict))
    if code:
        raise typer.Exit(code)


def _code_of(blocks: Sequence[LintedBlock], *, strict: bool) -> ExitCode:
    counting = {"error", "warning"} if strict else {"error"}
    failed = any(each.severity in counting for block in blocks for each in block.diagnostics)
    return ExitCode.CHECK_FAILED if failed else ExitCode.DONE
