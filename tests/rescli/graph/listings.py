"""Listings of layers written as text, for tests of what is made of them; and random ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from rescli.graph.fold import Tie
from rescli.graph.model import LayerFact

if TYPE_CHECKING:
    from rescli.graph.model import LayerKind

KINDS: dict[str, LayerKind] = {"R": "record", "A": "apply", "[": "block"}


def listing(text: str) -> list[LayerFact]:
    """Make rows of a text: a letter is a layer of that type, R a Record, A an Apply, and [ ] a block around some.

    Layers of one letter are equal; the figures of a layer are made from its letter.
    """
    rows: list[LayerFact] = []
    depth = 1
    for mark in text:
        if mark == "]":
            depth -= 1
            continue
        size = 0 if mark in KINDS else ord(mark)
        rows.append(
            LayerFact(
                index=len(rows),
                path=f"path.{len(rows)}",
                kind=KINDS.get(mark, "layer"),
                type=mark,
                depth=depth,
                output_shape=(2, 4),
                dtype="float32",
                parameters=size,
                flops=10 * size,
                reused=False,
                detail="",
                output="(2, 4)",
                record=f"r{len(rows)}" if mark in "RA" else None,
            )
        )
        depth += mark == "["
    return rows


def ties_of(text: str) -> list[Tie]:
    """Join each Apply of a text to the latest Record that was not joined yet, if there is one."""
    marks = text.replace("]", "")
    waiting: list[int] = []
    ties = []
    for row, mark in enumerate(marks):
        if mark == "R":
            waiting.append(row)
        elif mark == "A" and waiting:
            ties.append(Tie(waiting.pop(), row, "add"))
    return ties


def texts() -> st.SearchStrategy[str]:
    """Listings in which much repeats, in all ways: layers, groups of them, blocks, and groups in blocks."""
    leaves = st.sampled_from(["x", "y", "R", "A", "RxA", "RyxA"])

    def more(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        several = st.lists(inner, min_size=1, max_size=3).map("".join)
        return st.one_of(
            several,
            st.tuples(several, st.integers(2, 4)).map(lambda pair: pair[0] * pair[1]),
            several.map(lambda text: f"[{text}]"),
        )

    return st.recursive(leaves, more, max_leaves=12).filter(lambda text: len(text) <= 120)
