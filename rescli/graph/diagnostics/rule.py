"""What one kind of diagnostic is: its stable code, how grave it is, and the function that finds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rescli.graph.diagnostics.evidence import Evidence
    from rescli.graph.model import Severity


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a rule found.

    Args:
        path: The position of the module it is about; empty for the block itself.
        message: What was found.
        hint: What to change, or to look at next.
    """

    path: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of diagnostic.

    Args:
        code: Its stable name.
        severity: ``error``: the block cannot run, or is wrong; ``warning``: likely a mistake or a waste;
            ``note``: good to know.
        find: Yields what it finds in a block.
    """

    code: str
    severity: Severity
    find: Callable[[Evidence], Iterator[Finding]]


def record_text(name: str | None) -> str:
    """Name a record in a sentence.

    Args:
        name: Its name, if it has one.
    """
    return f"the record {name!r}" if name else "an unnamed record"


def counted(number: int, thing: str) -> str:
    """Write a number with its thing, as ``1 layer`` and ``2 layers``.

    Args:
        number: How many.
        thing: What, in the singular.
    """
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def listed(names: Sequence[str], most: int = 6) -> str:
    """Write names one after the other; of a long list the first ones and how many follow.

    Args:
        names: What is written.
        most: From how many on the rest is counted only.
    """
    rest = len(names) - most
    return ", ".join([*names[:most], f"and {rest:,} more"] if rest > 0 else names)
