"""What a block costs beside the best hand-written forward.

    python benchmarks/overhead.py                      all cells, one thread and two
    python benchmarks/overhead.py --quick              the cells that tell most, in about two minutes
    python benchmarks/overhead.py --sizes 4x16 --passes inference --operations add --threads 1
    python benchmarks/overhead.py --peer FOLDER --json

Each cell is one operation, one kind of alpha, one size, one pass and one number of threads. First every form runs for
a fifth of the blocks: the ResidualSequential, the forwards that a person would write with the same values, faster forms
of other values, an ``nn.Sequential`` without the skip, and, with ``--peer FOLDER``, the published torchresidual 0.1.0
unpacked there. Then the block, the hand-written form with the least median, and that form a second time (the noise
floor) run for all blocks, interleaved in random order. A ratio is the median of the paired ratios of blocks, its
interval the 2.5th and 97.5th percentile of 1,000 bootstrap medians. A cell fails only if its whole interval lies beyond
the bar.
"""

from __future__ import annotations

import argparse
import importlib
import json
import random
import statistics
import sys
import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

import torchresidual
from benchmarks.forms import ALPHAS, OPERATIONS, SHAPES, Forms, forms_of, forms_of_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

PASSES = ("inference", "forward", "step")
SIZES = ("4x16", "64x256", "2048x256", "1024x1024")
BLOCK_S = 0.002  # a block of calls is at least so long
FEWEST_BLOCKS = 5


@dataclass(frozen=True, slots=True)
class Cell:
    """What is measured at a time."""

    operation: str
    alpha: str
    size: str
    measured: str
    threads: int

    @property
    def bar(self) -> float:
        """The ratio that it may have at most."""
        small = self.size == "4x16"
        if self.operation in SHAPES:
            return 1.15 if small else 1.05
        if self.measured == "forward":
            return 1.10 if small else 1.03
        return 1.08 if small else 1.02


@dataclass(frozen=True, slots=True)
class Row:
    """A cell and what was found: ratios are of times, ours over another's; ``noise`` is the best form over itself."""

    cell: Cell
    ours_s: float
    best: str
    ratio: float
    low: float
    high: float
    noise: float
    without_skip: float
    fused: float | None
    peer: float | None

    @property
    def fails(self) -> bool:
        """Whether the whole interval lies beyond the bar."""
        return self.low > self.cell.bar


def caller(module: nn.Module, x: Tensor, measured: str) -> Callable[[], None]:
    """Return one call of a pass."""
    module.train(measured != "inference")
    if measured != "step":
        return lambda: module(x)
    ones = torch.ones_like(module(x))
    parameters = list(module.parameters())

    def step() -> None:
        module(x).backward(ones)
        for parameter in parameters:
            parameter.grad = None

    return step


def timed(call: Callable[[], None], calls: int, device: str) -> float:
    """Return the seconds that one call of a block of calls takes, what it started on a GPU included."""
    if device != "cpu":
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        call()
    if device != "cpu":
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / calls


def measure(
    modules: dict[str, nn.Module], x: Tensor, measured: str, blocks: int, rng: random.Random
) -> dict[str, list[float]]:
    """Return the seconds per call of each form, block by block, interleaved in random order."""
    samples: dict[str, list[float]] = {name: [] for name in modules}
    device = x.device.type
    with torch.inference_mode() if measured == "inference" else nullcontext():
        calls = {name: caller(module, x, measured) for name, module in modules.items()}
        slowest = max(min(timed(call, 3, device) for _ in range(3)) for call in calls.values())
        per_block = max(1, int(BLOCK_S / slowest))
        for _ in range(blocks):
            order = list(calls)
            rng.shuffle(order)
            for name in order:
                samples[name].append(timed(calls[name], per_block, device))
    return samples


def ratio(a: list[float], b: list[float], rng: random.Random) -> tuple[float, float, float]:
    """Return the median of the paired ratios a/b and its 95% bootstrap interval."""
    ratios = [one / other for one, other in zip(a, b, strict=True)]
    medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(1000))
    return statistics.median(ratios), medians[25], medians[974]


def row_of(cell: Cell, forms: Forms, x: Tensor, blocks: int, rng: random.Random) -> Row:
    """Measure one cell."""
    others = {"plain": forms.plain, "fused": forms.fused, "peer": forms.peer}
    found = {name: module for name, module in others.items() if module is not None}
    written = {f"hand {name}": module for name, module in forms.hand.items()}
    first = measure(
        {"ours": forms.ours, **written, **found}, x, cell.measured, max(FEWEST_BLOCKS, blocks // 5), rng
    )
    best = min(written, key=lambda name: statistics.median(first[name]))
    over = {name: ratio(first["ours"], first[name], rng)[0] for name in found}
    modules = {"ours": forms.ours, "best": written[best], "again": written[best]}
    samples = measure(modules, x, cell.measured, blocks, rng)
    value, low, high = ratio(samples["ours"], samples["best"], rng)
    return Row(
        cell=cell,
        ours_s=statistics.median(samples["ours"]),
        best=best.removeprefix("hand "),
        ratio=value,
        low=low,
        high=high,
        noise=ratio(samples["again"], samples["best"], rng)[0],
        without_skip=over["plain"],
        fused=over.get("fused"),
        # Over the best form, as ours is.
        peer=ratio(first["peer"], first[best], rng)[0] if "peer" in first else None,
    )


def cells(options: argparse.Namespace) -> Iterator[Cell]:
    """Yield what is to be measured: each operation with each kind of alpha that has a part in it."""
    for threads in options.threads:
        for size in options.sizes:
            for operation in options.operations:
                kinds = ("1",) if operation in ("concat", "highway", *SHAPES) else ALPHAS
                for alpha in (kind for kind in kinds if kind in options.alphas):
                    for measured in options.passes:
                        yield Cell(operation, alpha, size, measured, threads)


def rows(options: argparse.Namespace, peer: ModuleType | None) -> Iterator[Row]:
    """Measure cell by cell."""
    rng = random.Random(options.seed)
    for cell in cells(options):
        torch.set_num_threads(cell.threads)
        torch.manual_seed(0)
        batch, width = (int(part) for part in cell.size.split("x"))
        if cell.operation in SHAPES:
            forms = forms_of_shape(cell.operation, width)
        else:
            forms = forms_of(cell.operation, cell.alpha, width, peer)
        for module in (forms.ours, *forms.hand.values(), forms.plain, forms.fused, forms.peer):
            if module is not None:
                module.to(options.device)
        yield row_of(cell, forms, torch.randn(batch, width, device=options.device), options.blocks, rng)


def published(folder: str) -> ModuleType:
    """Import the published torchresidual from a folder of its own, beside ours."""
    own = {
        name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "torchresidual"
    }
    sys.path.insert(0, folder)
    try:
        module = importlib.import_module("torchresidual")
    finally:
        sys.path.remove(folder)
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchresidual"]:
            del sys.modules[name]
        sys.modules.update(own)
    if module is torchresidual or hasattr(module, "Edge"):
        raise SystemExit(f"--peer {folder}: there is no published torchresidual in it")
    return module


HEAD = (
    f"{'operation':17} {'alpha':8} {'size':10} {'pass':9} {'threads':>7} {'ours µs':>9} {'ratio':>6} {'95%':>12} "
    f"{'bar':>5}{'':6} {'noise':>6} {'/no skip':>8} {'/fused':>7} {'peer':>7}  best hand-written"
)


def line(row: Row) -> str:
    """Return a row of the table."""
    cell = row.cell
    fused, peer = ("      -" if value is None else f"{value:7.2f}" for value in (row.fused, row.peer))
    return (
        f"{cell.operation:17} {cell.alpha:8} {cell.size:10} {cell.measured:9} {cell.threads:7} {row.ours_s * 1e6:9.1f} "
        f"{row.ratio:6.3f} {row.low:6.3f}-{row.high:5.3f} {cell.bar:5.2f} {'FAIL' if row.fails else 'ok':4} "
        f"{row.noise:6.3f} {row.without_skip:8.2f} {fused} {peer}  {row.best}"
    )


def parsed() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name, choices in (
        ("--operations", [*OPERATIONS, *SHAPES]),
        ("--alphas", [*ALPHAS]),
        ("--sizes", [*SIZES]),
        ("--passes", [*PASSES]),
    ):
        parser.add_argument(name, nargs="+", metavar="NAME", default=choices, help=f"of {', '.join(choices)}")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--blocks", type=int, default=200, help="blocks of calls per form")
    parser.add_argument("--quick", action="store_true", help="fewer cells and blocks, one thread")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--peer", help="folder with the published torchresidual 0.1.0")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.sizes, options.passes, options.threads = ["4x16", "64x256"], ["inference", "step"], [1]
        options.alphas, options.blocks = ["1", "learned"], min(options.blocks, 60)
    return options


def main() -> int:
    """Print the table; return 1 if a cell fails."""
    options = parsed()
    peer = published(options.peer) if options.peer else None
    if not options.json:
        print(HEAD)
    found = []
    for row in rows(options, peer):
        found.append(row)
        if not options.json:
            print(line(row), flush=True)
    if options.json:
        flat = ({**asdict(row.cell), **asdict(row), "bar": row.cell.bar, "fails": row.fails} for row in found)
        print(json.dumps([{k: v for k, v in row.items() if k != "cell"} for row in flat], indent=2))
    return 1 if any(row.fails for row in found) else 0


if __name__ == "__main__":
    sys.exit(main())
