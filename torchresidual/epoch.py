"""A counter of edits, by which a block notices that its plan is out of date.

Names, operations and the children of nested blocks can change where the enclosing block does not see it. Each
such edit moves the counter; a block whose plan was made at an earlier count makes a new one. Comparing one number
per call costs nothing that can be measured.
"""

from __future__ import annotations

_edits = [0]


def bump() -> None:
    """Note that a block, a Record or an Apply was edited somewhere."""
    _edits[0] += 1


def current_epoch() -> int:
    """Return how many edits there were."""
    return _edits[0]
