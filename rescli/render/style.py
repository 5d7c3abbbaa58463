"""How text may look on the stream it goes to: how wide, in which characters, in which colours."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

_RESET = "\x1b[0m"
_CODES = {
    "bold": "\x1b[1m",
    "dim": "\x1b[2m",
    "error": "\x1b[1;31m",
    "warning": "\x1b[1;33m",
    "note": "\x1b[1;36m",
}
# The colours of arcs, taken in turn. Red and yellow stay with what is wrong.
_NET_CODES = ("\x1b[36m", "\x1b[35m", "\x1b[32m", "\x1b[34m", "\x1b[96m", "\x1b[95m", "\x1b[92m", "\x1b[94m")
# Joins what a line must not be broken at; textwrap breaks at plain spaces only.
_FIXED_SPACE = "\u00a0"


@dataclass(frozen=True, slots=True)
class Style:
    """What the stream can show.

    Args:
        width: Columns to lay text out for. Nothing is cut to fit: what cannot be broken runs over.
        color: Whether escape sequences are allowed.
        ascii: Whether only ASCII characters can be written.
    """

    width: int = 80
    color: bool = False
    ascii: bool = False

    def paint(self, text: str, look: str) -> str:
        """Give a text a look, if colour is allowed.

        Args:
            text: The text.
            look: ``bold``, ``dim``, ``error``, ``warning`` or ``note``.
        """
        return f"{_CODES[look]}{text}{_RESET}" if self.color and text.strip() else text

    def paint_net(self, text: str, net: int) -> str:
        """Give a piece of an arc the colour of its skip, if colour is allowed.

        Args:
            text: The characters.
            net: Number of the arc.
        """
        return f"{_NET_CODES[net % len(_NET_CODES)]}{text}{_RESET}" if self.color and text.strip() else text

    def arrows(self, text: str) -> str:
        """Draw ``64 -> 32`` as an arrow without space around it, and ``2 x``, in the characters of the stream.

        Args:
            text: A detail of a layer.
        """
        return text.replace(" -> ", "->" if self.ascii else "→").replace(" x ", f" {self.times} ")

    def shown(self, text: str) -> str:
        r"""Write what somebody else wrote so that the stream shows it: what it cannot, or would obey, as an escape.

        Args:
            text: A name, a message, a cell of a table.

        Example:
            >>> print(Style().shown("größe\x07"), Style(ascii=True).shown("größe"))
            größe\x07 gr\xf6\xdfe
        """
        seen = visible(text)
        if not self.ascii or seen.isascii():
            return seen
        # What keeps a line together is no character that is written.
        parts = (part.encode("ascii", "backslashreplace").decode() for part in seen.split(_FIXED_SPACE))
        return _FIXED_SPACE.join(parts)

    @property
    def right(self) -> str:
        """An arrow to the right."""
        return "->" if self.ascii else "→"

    @property
    def left(self) -> str:
        """An arrow to the left."""
        return "<-" if self.ascii else "←"

    @property
    def times(self) -> str:
        """The sign between a thing and how often it comes."""
        return "x" if self.ascii else "×"

    @property
    def at_least(self) -> str:
        """The sign in front of a lower bound."""
        return ">=" if self.ascii else "≥"


def visible(text: str) -> str:
    r"""Write what a terminal would obey instead of show as an escape: ``\x1b``, ``\n``.

    Args:
        text: A name, a message, or anything else that somebody else wrote.

    Example:
        >>> print(visible("red\x1b[31m"))
        red\x1b[31m
    """
    if text.replace(_FIXED_SPACE, " ").isprintable():
        return text
    return "".join(
        mark if mark.isprintable() or mark == _FIXED_SPACE else mark.encode("unicode_escape").decode("ascii")
        for mark in text
    )


def fixed(text: str) -> str:
    """Keep a text on one line, whatever is broken around it.

    Args:
        text: A shape, or a number with its unit.
    """
    return text.replace(" ", _FIXED_SPACE)


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Break a text into lines, never inside a word and never inside what is ``fixed``.

    Args:
        text: The text.
        width: The longest line; a longer word gets a line of its own and runs over.
        indent: What stands before the second and each further line.
    """
    lines = textwrap.wrap(
        visible(" ".join(text.splitlines())),
        max(width, 1),
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_FIXED_SPACE, " ") for line in lines] or [""]
