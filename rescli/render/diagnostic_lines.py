"""One diagnostic as lines of text: how grave, where, what it is about, and the way out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rescli.render.style import fixed, wrapped
from rescli.units import format_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rescli.graph.model import Diagnostic
    from rescli.render.style import Style

# Of many places where the same is to be said, so many are named behind the first.
_NAMED_PLACES = 3
_SHAPE = re.compile(r"\([\d, ]*\)")


def diagnostic_lines(each: Diagnostic, style: Style, more_paths: Sequence[str] = ()) -> Iterator[str]:
    """Write a diagnostic; what does not fit the width goes on below, indented.

    Args:
        each: The diagnostic.
        style: How wide, and with which characters and colours.
        more_paths: Where else the same is to be said.
    """
    place = f" at '{each.path}'" if each.path else ""
    place += "".join(f", '{path}'" for path in more_paths[:_NAMED_PLACES])
    if len(more_paths) > _NAMED_PLACES:
        place += f" and {format_count(len(more_paths) - _NAMED_PLACES)} more"
    # An error of the user's own code may have several lines.
    lines = [style.shown(line) for line in keep_shapes(each.message).splitlines()]
    first, *more = wrapped(
        f"{each.severity}{style.shown(place)} ({each.code}): {lines[0]}", style.width, "  "
    )
    yield style.paint(each.severity, each.severity) + first.removeprefix(each.severity)
    yield from more
    yield from (f"  {line}" for line in lines[1:])
    if each.hint:
        yield from wrapped(f"  hint: {style.shown(keep_shapes(each.hint))}", style.width, "    ")


def keep_shapes(text: str) -> str:
    """Keep each shape in a text on one line.

    Args:
        text: A text that will be wrapped.
    """
    return _SHAPE.sub(lambda shape: fixed(shape.group()), text)
