"""A counter of edits, by which a block notices that its plan is out of date.

Names, operations and the children of nested blocks can change where the enclosing block does not see it. Each
such edit moves the counter; a block whose plan was made at an earlier count makes a new one. Comparing one number
per call costs nothing that can be measured.
"""

from __future__ import annotations


class _Edits:
    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


EDITS = _Edits()


def bump() -> None:
    """Note that a block, a Record or an Apply was edited somewhere."""
    EDITS.count += 1
