"""Graphs for Python programs: from a module, and drawn where they are printed."""

from __future__ import annotations

import shutil
import sys
from dataclasses import fields
from typing import TYPE_CHECKING

from rescli.errors import CommandLineError
from rescli.graph.model import BlockGraph

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console, ConsoleOptions, RenderResult
    from torch import Tensor, nn

    from rescli.graph.model import Origin


class InspectedGraph(BlockGraph):
    """The facts about a block, which show themselves as the picture of ``rescli show``.

    Printed, at the prompt and in a notebook it takes the width of the terminal and no colours; a console of rich
    prints it in its own width and in colour.
    """

    __slots__ = ()

    def text(self, *, width: int = 80, depth: int | None = None, fold: bool = True) -> str:
        """Write the picture and the tables below it.

        Args:
            width: Columns to lay it out for. What cannot be broken runs over.
            depth: The deepest level that keeps its rows; deeper ones are summed up. None keeps all.
            fold: Whether equal neighbours are shown once, as ``Block × 12``.
        """
        return self._drawn(width, color=False, is_ascii=False, depth=depth, fold=fold)

    def _drawn(
        self, width: int, *, color: bool, is_ascii: bool, depth: int | None = None, fold: bool = True
    ) -> str:
        from rescli.graph.outline.build import outline  # noqa: PLC0415 - only where somebody looks
        from rescli.graph.outline.model import ShownBlock  # noqa: PLC0415
        from rescli.render.show_text import render_show_text  # noqa: PLC0415
        from rescli.render.style import Style  # noqa: PLC0415

        shown = ShownBlock(self, outline(self, depth=depth, fold=fold))
        return render_show_text([shown], Style(width, color, is_ascii)).rstrip("\n")

    def __repr__(self) -> str:
        from rescli.render.charset import can_draw  # noqa: PLC0415

        # What has no encoding keeps text as it is.
        is_ascii = not can_draw(getattr(sys.stdout, "encoding", None) or "utf-8")
        return self._drawn(shutil.get_terminal_size().columns, color=False, is_ascii=is_ascii)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text  # noqa: PLC0415 - rich is there if its console asks

        has_color = console.color_system is not None and not console.no_color
        drawn = self._drawn(options.max_width, color=has_color, is_ascii=options.ascii_only)
        yield Text.from_ansi(drawn, no_wrap=True, overflow="ignore")


def inspect_module(module: nn.Module, example_input: Tensor | Sequence[object] | None) -> InspectedGraph:
    """Do what ``rescli.inspect`` promises; see there."""
    from torch import nn  # noqa: PLC0415 - facts need no torch, looking at a module does

    from rescli.graph.trace import trace  # noqa: PLC0415

    if not isinstance(module, nn.Module):
        raise CommandLineError(f"rescli.inspect looks at an nn.Module, found {type(module).__name__}")
    name = type(module).__name__
    inputs, origin = _inputs_of(module, name, example_input)
    graph = trace(module, inputs, name=name, target="", origin=origin)
    return InspectedGraph(**{entry.name: getattr(graph, entry.name) for entry in fields(graph) if entry.init})


def _inputs_of(
    module: nn.Module, name: str, example_input: Tensor | Sequence[object] | None
) -> tuple[tuple[object, ...], Origin]:
    from torch import Tensor  # noqa: PLC0415

    from rescli.graph.structure import first_tensor  # noqa: PLC0415

    if example_input is None:
        from rescli.spec.inputs import example_input as worked_out  # noqa: PLC0415 - only where it has to be found
        from rescli.spec.request import Request  # noqa: PLC0415

        example = worked_out(module, name, None, Request())
        return example.tensors, example.origin
    if isinstance(example_input, Tensor):
        return (example_input,), "option"
    if not isinstance(example_input, tuple | list) or first_tensor(example_input) is None:
        raise CommandLineError(
            f"example_input is {example_input!r}"[:120],
            hint="give a tensor, as torch.zeros(8, 64), a tuple of what forward takes, or None",
        )
    return tuple(example_input), "option"
