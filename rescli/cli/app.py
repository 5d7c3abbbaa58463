"""The command line as a whole: which commands there are, and what becomes of what they raise.

A command's file is imported when that command is asked for, and torch when it starts to work: help,
completion and wrong options wait for neither.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import inspect
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer
from typer.core import TyperCommand, TyperGroup

from rescli import __version__
from rescli.cli.console import drop_output, flush_output, output_errors, prepare_streams, write_note
from rescli.cli.errors import show_traceback, write_error, write_fault
from rescli.cli.exit_codes import ExitCode, exit_code_of
from rescli.cli.interrupt import watched_interrupts
from rescli.cli.plain_values import with_plain_values
from rescli.cli.typed import typed_arguments
from rescli.errors import CommandLineError, FileError, RescliError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

_PROGRAM = "rescli"
_COMPLETION_REQUEST = "_RESCLI_COMPLETE"
# Typer brings its own click and does not export the class of all wrong usage; its subclass it does.
_UsageError: type[typer.BadParameter] = typer.BadParameter.__base__  # type: ignore[assignment]
# Docstrings go on with what readers of the code want to know.
_SECTIONS = re.compile(r"^(Args|Raises|Returns|Examples?|Yields):$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """A command that has not been imported.

    Args:
        name: What is typed.
        module: The file in ``rescli/cli/commands`` and the function in it.
        summary: The line about it in ``rescli --help``; the first one of the function's docstring.
    """

    name: str
    module: str
    summary: str


COMMANDS = {
    entry.name: entry
    for entry in (
        CommandEntry("show", "show", "Show the Record/Apply graph of a block, its skips and what they cost."),
        CommandEntry("lint", "lint", "Say what is wrong with a block, or worth knowing."),
        CommandEntry("bench", "bench", "Measure how long the passes of a block take."),
        CommandEntry(
            "check-threads", "check_threads", "Test whether a block may be called from several threads."
        ),
        CommandEntry("specs", "specs", "List the specs that ship with rescli."),
        CommandEntry("env", "env", "Print what a bug report needs: versions, CPU, GPUs, threads."),
    )
}


class _Command(TyperCommand):
    """A command whose options are read without pydantic, ``--help`` among them."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - Typer's classes have no public names
        """Read the command line, and print help where that is asked for."""
        with output_errors():
            return super().make_context(*args, **kwargs)

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401 - Typer's classes have no public names
        """List the parameters, ready to make their values."""
        return with_plain_values(super().get_params(ctx))


def build_command(name: str, function: Callable[..., None]) -> TyperCommand:
    """Make a command out of a function with Typer parameters.

    Args:
        name: What is typed.
        function: What runs; its docstring, up to ``Args:``, is the help.
    """
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    text = _SECTIONS.split(inspect.getdoc(function) or "")[0].strip()
    app.command(name, cls=_Command, help=text)(function)
    command = typer.main.get_command(app)
    assert isinstance(command, TyperCommand)  # noqa: S101 - what one function becomes
    return command


class _Parsing(Protocol):
    """What is read here of Typer's context, whose class has no public name in all versions."""

    resilient_parsing: bool


class _HelpFormatter(Protocol):
    """What is used here of the help formatter, which has no public name either."""

    def section(self, name: str) -> AbstractContextManager[None]: ...
    def write_dl(self, rows: Sequence[tuple[str, str]]) -> None: ...


class CommandGroup(TyperGroup):
    """The commands of rescli, each imported only when it is needed."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - Typer's classes have no public names
        """Read what stands before the command, and print help or version where that is asked for."""
        with output_errors():
            return super().make_context(*args, **kwargs)

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401 - Typer's classes have no public names
        """List the parameters, ready to make their values."""
        return with_plain_values(super().get_params(ctx))

    def list_commands(self, ctx: object) -> list[str]:  # noqa: ARG002 - Typer's signature
        """Name the commands in the order in which help lists them."""
        return list(COMMANDS)

    def get_command(self, ctx: _Parsing, cmd_name: str) -> TyperCommand | None:
        """Import a command.

        Raises:
            CommandLineError: There is none of that name.
        """
        entry = COMMANDS.get(cmd_name)
        if entry is not None:
            module = importlib.import_module(f"rescli.cli.commands.{entry.module}")
            command = build_command(cmd_name, getattr(module, entry.module))
            _add_traceback_option(command)
            return command
        if ctx.resilient_parsing:  # the shell asks how an unfinished line could go on
            return None
        close = difflib.get_close_matches(cmd_name, COMMANDS, n=1)
        raise CommandLineError(
            f"there is no command {cmd_name}",
            hint=f"did you mean {close[0]}?" if close else f"one of {', '.join(COMMANDS)}",
        )

    def format_commands(self, ctx: object, formatter: _HelpFormatter) -> None:  # noqa: ARG002 - Typer's signature
        """List the commands with their summaries, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(entry.name, entry.summary) for entry in COMMANDS.values()])


def _remember_traceback(value: bool) -> None:
    if value:
        show_traceback.set(True)


_TracebackOption = Annotated[
    bool,
    typer.Option(
        "--traceback",
        is_eager=True,
        callback=_remember_traceback,
        help="Show the whole traceback of whatever goes wrong.",
    ),
]


def _takes_traceback(traceback: _TracebackOption = False) -> None: ...


def _add_traceback_option(command: TyperCommand) -> None:
    """Let a command take ``--traceback`` without its function having to know of it."""
    (parameter,) = build_command("holder", _takes_traceback).params
    parameter.expose_value = False
    command.params.append(parameter)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"{_PROGRAM} {__version__}")
        raise typer.Exit


app = typer.Typer(
    name=_PROGRAM,
    cls=CommandGroup,
    rich_markup_mode=None,  # importing rich alone would double the time that --help takes
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def rescli(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001 - its callback has done the work
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and end."),
    ] = False,
    traceback: _TracebackOption = False,  # noqa: ARG001 - likewise
) -> None:
    """See, benchmark and thread-test residual networks written with Record and Apply."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(ExitCode.COMMAND_LINE)


def run(arguments: Sequence[str]) -> int:
    """Run one command line, print what goes wrong, and say how it ended.

    Args:
        arguments: What follows the name of the program.

    Returns:
        The exit code; never an exception.
    """
    prepare_streams()
    token = show_traceback.set(False)
    typed = typed_arguments.set(tuple(arguments))
    try:
        with watched_interrupts() as interrupted:
            return _guarded(arguments, interrupted)
    finally:
        show_traceback.reset(token)
        typed_arguments.reset(typed)


def _guarded(arguments: Sequence[str], interrupted: Callable[[], bool]) -> int:
    try:
        code = _run(arguments)
        flush_output()
    except BaseException as error:  # noqa: BLE001 - the one place where everything ends
        unforeseen = exit_code_of(error) is ExitCode.FAULT
        code = _explain(KeyboardInterrupt() if unforeseen and interrupted() else error)
        # What was printed before may still be on its way; that nobody takes it changes nothing any more.
        with contextlib.suppress(OSError, FileError):
            flush_output()
    return code


def _run(arguments: Sequence[str]) -> int:
    command = typer.main.get_command(app)
    if _COMPLETION_REQUEST in os.environ:
        command.main(args=list(arguments), prog_name=_PROGRAM)
    try:
        # Not command.main(): that answers a closed pipe with exit code 1 and words errors in its own way.
        with command.make_context(_PROGRAM, list(arguments)) as context:
            command.invoke(context)
    except typer.Exit as ended:
        return ended.exit_code
    return ExitCode.DONE


def _explain(error: BaseException) -> int:
    """Print what the user must know of an error, and give its exit code."""
    if isinstance(error, SystemExit):  # how Typer leaves completion
        return error.code if isinstance(error.code, int) else ExitCode.DONE
    if isinstance(error, _UsageError):
        error = _worded(error)
    if isinstance(error, ImportError) and (error.name or "").partition(".")[0] == "torchresidual":
        error = FileError(
            f"the package torchresidual that Python finds is not the one that came with rescli: {error}",
            hint="`rescli env` says what brought it and how to put ours back",
        )
    if isinstance(error, BrokenPipeError):
        drop_output()
        return exit_code_of(error)
    # Nobody may be listening on stderr either.
    with contextlib.suppress(OSError):
        if isinstance(error, KeyboardInterrupt):
            write_note("Interrupted.")
        elif isinstance(error, RescliError):
            write_error(error)
        else:
            write_fault(error)
    return exit_code_of(error)


def _worded(error: typer.BadParameter) -> CommandLineError:
    """Put what Typer says of a wrong option into our words."""
    message = error.format_message().rstrip(".")
    command = error.ctx.command_path if error.ctx else _PROGRAM
    worded = CommandLineError(
        f"{message[:1].lower()}{message[1:]}", hint=f"`{command} --help` lists what can be typed"
    )
    return worded.with_traceback(error.__traceback__)
