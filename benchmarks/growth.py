"""How the cost of a block grows with its length and depth, beside an nn.Sequential of the same layers.

    python benchmarks/growth.py
    python benchmarks/growth.py --layers 1000 --repeats 3 --json

For each number of layers a flat block with three skips for ten layers is built from layers that are ready, and called
once; so is an ``nn.Sequential`` of the same layers without the Records and Applies. Both are timed in turn, and the
least of all repeats counts, since a first call cannot be repeated. With ``--depth``, blocks in one another are built
and called as well. ``ready`` is construction and first call over those of the ``nn.Sequential``; ``from scratch`` has
the time that making the layers takes on both sides. Below 10,000 layers the cost of a call is what counts
(``overhead.py``); from there on a row fails where ``ready`` is above 2.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import nn

from torchresidual import Apply, Record, ResidualSequential

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MOST = 2.0
LONG = 10_000


@dataclass(frozen=True, slots=True)
class Row:
    """One length: least seconds with skips and without."""

    layers: int
    skips: int
    making_s: float
    construction_s: float
    plain_construction_s: float
    first_call_s: float
    plain_first_call_s: float

    @property
    def ready(self) -> float:
        """Construction from ready layers and first call, over those without skips."""
        plain = self.plain_construction_s + self.plain_first_call_s
        return (self.construction_s + self.first_call_s) / plain

    @property
    def from_scratch(self) -> float:
        """The same with the time that making the layers takes on both sides."""
        plain = self.making_s + self.plain_construction_s + self.plain_first_call_s
        return (self.making_s + self.construction_s + self.first_call_s) / plain

    @property
    def fails(self) -> bool:
        """Whether a long block takes more than twice as long as without skips."""
        return self.layers >= LONG and self.ready > MOST


def layers(count: int) -> list[nn.Module]:
    """Return small layers: every other one has parameters."""
    return [nn.Linear(8, 8) if index % 2 == 0 else nn.Tanh() for index in range(count)]


def with_skips(plain: list[nn.Module]) -> list[nn.Module]:
    """Return the layers with three skips for ten of them."""
    found: list[nn.Module] = []
    for start in range(0, len(plain), 10):
        ten = plain[start : start + 10]
        for first, last in ((0, 2), (2, 5), (5, 8)):
            found += [Record(), *ten[first:last], Apply()]
        found += ten[8:]
    return found


def timed(call: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _build(blocks: list[nn.Module], kind: Callable[..., nn.Module], modules: list[nn.Module]) -> None:
    blocks.append(kind(*modules))


def row_of(count: int, repeats: int) -> Row:
    """Time one length."""
    x = torch.zeros(2, 8)
    least: dict[str, float] = {}

    def note(name: str, call: Callable[[], object]) -> None:
        least[name] = min(least.get(name, float("inf")), timed(call))

    for _ in range(repeats):
        note("making_s", lambda: with_skips(layers(count)))
        plain = layers(count)
        marked = with_skips(plain)
        blocks: list[nn.Module] = []
        note("construction_s", partial(_build, blocks, ResidualSequential, marked))
        note("plain_construction_s", partial(_build, blocks, nn.Sequential, plain))
        with torch.no_grad():
            note("first_call_s", partial(blocks[0], x))
            note("plain_first_call_s", partial(blocks[1], x))
    return Row(count, 3 * count // 10, **least)


def nested(depth: int) -> nn.Module:
    """Return blocks in one another."""
    block: nn.Module = nn.Linear(8, 8)
    for _ in range(depth):
        block = ResidualSequential(Record(), block, Apply())
    return block


def depths(wanted: list[int]) -> Iterator[tuple[int, float, float]]:
    """Yield depth, seconds of construction and of a call; Python's recursion limit is raised for it."""
    limit = sys.getrecursionlimit()
    for depth in wanted:
        sys.setrecursionlimit(max(limit, 20 * depth))
        start = time.perf_counter()
        block = nested(depth)
        built = time.perf_counter() - start
        with torch.no_grad():
            yield depth, built, timed(partial(block, torch.zeros(2, 8)))
    sys.setrecursionlimit(limit)


def main() -> int:
    """Print the table; return 1 if a row fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--layers", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--depth", type=int, nargs="*", default=[10, 100])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = [row_of(count, options.repeats) for count in options.layers]
    deep = list(depths(options.depth))
    if options.json:
        found = [{**asdict(row), "ready": row.ready, "from_scratch": row.from_scratch} for row in rows]
        print(json.dumps({"flat": found, "deep": deep}, indent=2))
        return 1 if any(row.fails for row in rows) else 0
    print(
        f"{'layers':>7} {'skips':>6} {'construction ms':>20} {'first call ms':>18} {'ready':>6} {'from scratch':>13}"
    )
    for row in rows:
        built = f"{row.construction_s * 1e3:.1f} / {row.plain_construction_s * 1e3:.1f}"
        called = f"{row.first_call_s * 1e3:.1f} / {row.plain_first_call_s * 1e3:.1f}"
        print(
            f"{row.layers:7} {row.skips:6} {built:>20} {called:>18} {row.ready:6.2f} {row.from_scratch:13.2f} "
            f"{'FAIL' if row.fails else 'ok'}"
        )
    for depth, built_s, called_s in deep:
        print(
            f"{depth} blocks in one another: construction {built_s * 1e3:.1f} ms, a call {called_s * 1e3:.1f} ms"
        )
    return 1 if any(row.fails for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
