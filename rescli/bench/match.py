"""Which block of another TARGET each block is compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rescli.bench.variant import PLAIN, Match
from rescli.errors import CommandLineError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rescli.spec.prepare import PreparedBlock


def match_blocks(
    blocks: Sequence[PreparedBlock],
    versus: str,
    others: Sequence[PreparedBlock],
    *,
    single: bool = False,
) -> list[Match]:
    """Give each block what it is compared with.

    Args:
        blocks: The blocks of a TARGET.
        versus: The value of ``--versus``.
        others: The blocks that it names; one alone is compared with every block, of several the one with the same
            name.
        single: Whether each is compared with itself on one device in one process.

    Raises:
        CommandLineError: There are several, and none has the name of a block.
    """
    if not others:
        return [Match(block, plain=versus == PLAIN, single=single) for block in blocks]
    return [Match(block, versus=_counterpart(block, versus, others), single=single) for block in blocks]


def _counterpart(block: PreparedBlock, versus: str, others: Sequence[PreparedBlock]) -> PreparedBlock:
    if len(others) == 1:
        return others[0]
    for other in others:
        if other.name == block.name:
            return other
    names = ", ".join(other.name for other in others)
    raise CommandLineError(
        f"--versus {versus} has the blocks {names}, none of them named {block.name}",
        hint=f"name the one that is meant: --versus {others[0].target}",
    )
