"""Equal neighbours in a listing: which stand for which.

Rows with what lies below them form a tree, and neighbours in it are equal if everything that a reader sees of them
is: class, sizes, shapes, figures, what lies below, and the skips. Names and keys may differ in their numbers
(``record_1``, ``record_2``). A group is only folded if each skip that touches it lies in one of its instances: none
enters, leaves, or leads from one to the next.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from rescli.graph.model import LayerFact

# Neighbours that one instance may consist of; a layer of a Transformer written flat has about ten.
_LONGEST_PERIOD = 64
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Fold:
    """Some rows that stand for themselves and for equal ones right behind them.

    Args:
        start: The first row.
        length: How many rows there are to stand for the others.
        times: How often they come, themselves included.
        siblings: How many neighbours these rows are, each with what lies below it.
    """

    start: int
    length: int
    times: int
    siblings: int


@dataclass(frozen=True, slots=True)
class Tie:
    """A skip between two rows.

    Args:
        first: Row of its Record.
        last: Row of its Apply.
        likeness: What is equal for skips that look alike.
    """

    first: int
    last: int
    likeness: Hashable


def find_folds(
    rows: Sequence[LayerFact], ties: Sequence[Tie], extras: Sequence[Hashable] = ()
) -> tuple[Fold, ...]:
    """Find the groups of equal neighbours, also within the first of a group.

    Args:
        rows: The rows in order, each behind the one that it lies below.
        ties: The skips between them, in any order that is the same for equal groups.
        extras: What else a reader sees of each row; nothing if empty.

    Returns:
        The folds by their first row, outer ones before those in them.
    """
    tree = _Tree([(_likeness(row), *extras[at : at + 1]) for at, row in enumerate(rows)], rows, ties)
    return tuple(tree.folds(tree.children[-1]))


def representatives(count: int, folds: Sequence[Fold]) -> list[int]:
    """Give for each row the one that stands for it; a row that is shown stands for itself.

    Args:
        count: How many rows there are.
        folds: As ``find_folds`` gives them.

    Example:
        >>> representatives(6, [Fold(start=1, length=2, times=2, siblings=2)])
        [0, 1, 2, 1, 2, 5]
    """
    shown = list(range(count))
    for fold in reversed(folds):
        end = fold.start + fold.length
        shown[end : end + fold.length * (fold.times - 1)] = shown[fold.start : end] * (fold.times - 1)
    return shown


def alike(name: str | None) -> str | None:
    """Take the numbers out of a name, in which those of equal neighbours may differ.

    Args:
        name: The name of a record, or the key of a module.
    """
    return None if name is None else _DIGITS.sub("#", name)


def _likeness(row: LayerFact) -> Hashable:
    key = alike(row.path.rpartition(".")[2]) if row.kind == "block" else None
    figures = (row.parameters, row.flops, row.reused, row.failed)
    tensor = (row.output, row.dtype, row.memory_format)
    return (row.kind, row.type, row.detail, tensor, alike(row.record), key, figures)


class _Tree:
    """The rows as a tree; subtrees that look alike have the same number."""

    def __init__(
        self, likenesses: Sequence[Hashable], rows: Sequence[LayerFact], ties: Sequence[Tie]
    ) -> None:
        count = len(rows)
        self.parents = _parents(rows)
        # The last entry holds the outermost rows.
        self.children: list[list[int]] = [[] for _ in range(count + 1)]
        self._places = [0] * count
        for row, parent in enumerate(self.parents):
            self._places[row] = len(self.children[parent])
            self.children[parent].append(row)
        self._ends = [0] * count
        # Where skips from this row and those below it lead, as places among its neighbours.
        self._reach: list[tuple[int, int]] = [(place, place) for place in self._places]
        self._leaves_level = [False] * count
        knots: list[list[Hashable]] = [[] for _ in range(count)]
        for tie in ties:
            self._knot(tie, rows, knots)
        self._numbers = [0] * count
        known: dict[Hashable, int] = {}
        for row in reversed(range(count)):
            below = self.children[row]
            self._ends[row] = self._ends[below[-1]] if below else row + 1
            look = (likenesses[row], tuple(knots[row]), tuple(self._numbers[child] for child in below))
            self._numbers[row] = known.setdefault(look, len(known))

    def _knot(self, tie: Tie, rows: Sequence[LayerFact], knots: list[list[Hashable]]) -> None:
        """Note a skip at the two neighbours that it joins, and at what lies between these and its ends."""
        first, last = tie.first, tie.last
        while self.parents[first] != self.parents[last]:
            # The deeper of the two is not yet at the level where they are neighbours.
            if rows[first].depth >= rows[last].depth:
                self._leaves_level[first] = True
                knots[first].append((tie.first - first, tie.likeness))
                first = self.parents[first]
            else:
                self._leaves_level[last] = True
                knots[last].append((tie.last - last, tie.likeness))
                last = self.parents[last]
        distance = self._places[last] - self._places[first]
        knots[first].append((distance, tie.first - first, tie.last - last, tie.likeness))
        knots[last].append((-distance, tie.first - first, tie.last - last, tie.likeness))
        self._extend(first, self._places[last])
        self._extend(last, self._places[first])

    def _extend(self, row: int, place: int) -> None:
        low, high = self._reach[row]
        self._reach[row] = (min(low, place), max(high, place))

    def folds(self, siblings: Sequence[int]) -> Iterator[Fold]:
        """Find the folds among some neighbours and in what lies below those that are shown."""
        level = _Level([self._numbers[row] for row in siblings])
        at = 0
        while at < len(siblings):
            fold = self._best(siblings, level, at)
            if fold is not None and not self._is_better_soon(siblings, level, at, fold):
                yield fold
                if fold.siblings > 1:
                    yield from self.folds(siblings[at : at + fold.siblings])
                else:
                    yield from self.folds(self.children[siblings[at]])
                at += fold.siblings * fold.times
            else:
                yield from self.folds(self.children[siblings[at]])
                at += 1

    def _is_better_soon(self, siblings: Sequence[int], level: _Level, at: int, fold: Fold) -> bool:
        """Say whether a fold that saves more begins within this one: A A B A B A B is A, and three times A B."""
        end = min(at + fold.siblings * fold.times, at + fold.siblings + 1, len(siblings))
        others = (self._best(siblings, level, place) for place in range(at + 1, end))
        return any(other is not None and _saved(other) > _saved(fold) for other in others)

    def _best(self, siblings: Sequence[int], level: _Level, at: int) -> Fold | None:
        if at in level.best:
            return level.best[at]
        best: Fold | None = None
        rest = self._ends[siblings[-1]] - siblings[at]
        for period in level.periods(at):
            # Nothing longer can save more.
            if best is not None and _saved(best) >= rest - best.length - 1:
                break
            times = level.run(at, period) // period + 1
            if times < 2 or not self._is_closed(siblings[at : at + period]):
                continue
            start, length = siblings[at], self._ends[siblings[at + period - 1]] - siblings[at]
            fold = Fold(start=start, length=length, times=times, siblings=period)
            if _saved(fold) > (0 if period == 1 else 1) and (best is None or _saved(fold) > _saved(best)):
                best = fold
        level.best[at] = best
        return best

    def _is_closed(self, instance: Sequence[int]) -> bool:
        """Say whether all skips that touch an instance lie in it."""
        low, high = self._places[instance[0]], self._places[instance[-1]]
        return all(
            not self._leaves_level[row] and low <= self._reach[row][0] and self._reach[row][1] <= high
            for row in instance
        )


class _Level:
    """Some neighbours as numbers, and where they repeat."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self.best: dict[int, Fold | None] = {}
        self._numbers = numbers
        self._next: dict[int, list[int]] = {}
        for place, number in enumerate(numbers):
            self._next.setdefault(number, []).append(place)
        self._runs: dict[int, list[int]] = {}

    def periods(self, at: int) -> Iterator[int]:
        """Give the distances after which what begins at a place may come again, the shortest first."""
        longest = min(_LONGEST_PERIOD, (len(self._numbers) - at) // 2)
        numbers, number = self._numbers, self._numbers[at]
        if len(self._next[number]) > 1:
            for period in range(1, longest + 1):
                # Two looks spare most counting: at the first and at the last of the second instance.
                if (
                    numbers[at + period] == number
                    and numbers[at + period - 1] == numbers[at + 2 * period - 1]
                ):
                    yield period

    def run(self, at: int, period: int) -> int:
        """Count the neighbours from a place on that come again after a distance."""
        runs = self._runs.get(period)
        if runs is None:
            numbers = self._numbers
            runs = self._runs[period] = [0] * (len(numbers) + 1)
            for place in range(len(numbers) - period - 1, -1, -1):
                runs[place] = runs[place + 1] + 1 if numbers[place] == numbers[place + period] else 0
        return runs[at]


def _saved(fold: Fold) -> int:
    """Count the lines that a listing gets shorter by: several neighbours need a heading."""
    return fold.length * (fold.times - 1) - (fold.siblings > 1)


def _parents(rows: Sequence[LayerFact]) -> list[int]:
    """Give for each row the one that it lies below; -1 for the outermost."""
    parents: list[int] = []
    around: list[int] = []
    for at, row in enumerate(rows):
        while around and rows[around[-1]].depth >= row.depth:
            around.pop()
        parents.append(around[-1] if around else -1)
        around.append(at)
    return parents
