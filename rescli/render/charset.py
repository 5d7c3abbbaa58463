"""Which characters pictures need, and whether a stream takes them."""

from __future__ import annotations

# What pictures and tables are drawn with; a stream that cannot encode all of it gets the ASCII twin.
_DRAWN_WITH = "●○▾✗◆◇◈⬖⬗─│╭╮╰╯┼┤←→×≥µ"


def can_draw(encoding: str | None) -> bool:
    """Say whether a stream of an encoding takes the characters that pictures are drawn with.

    Args:
        encoding: Its name, as Python knows it; None where a stream has none.
    """
    try:
        _DRAWN_WITH.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
