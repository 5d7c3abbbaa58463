"""One diagnostic as lines of text: how grave, where, what it is about, and the way out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rescli.render.style import fixed, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rescli.graph.model import Diagnostic
    from rescli.render.style import Style

_SHAPE = re.compile(r"\([\d, ]*\)")


def diagnostic_lines(each: Diagnostic, style: Style) -> Iterator[str]:
    """Write a diagnostic; what does not fit the width goes on below, indented.

    Args:
        each: The diagnostic.
        style: How wide, and with which characters and colours.
    """
    place = f" at '{each.path}'" if each.path else ""
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
