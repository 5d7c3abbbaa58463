"""What a block costs beside the best hand-written forward.

    python benchmarks/overhead.py                      all cells, one thread
    python benchmarks/overhead.py --sizes 4x16 --passes inference --operations add
    python benchmarks/overhead.py --peer /tmp/published --json

Each cell is one operation, one kind of alpha, one size and one pass. In it run, interleaved in random order and block
by block: the ResidualSequential, the plain expression in a hand-written ``forward``, other hand-written forms of the
same values (``torch.add(alpha=)``, ``torch.addcmul``), forms whose values differ for infinities (``torch.lerp`` of two
minus infinities is NaN, so is ``torch.addcmul`` of an infinity and a zero), an ``nn.Sequential`` without the skip, the
hand-written forward a second time (the noise floor), and, with ``--peer FOLDER``, the published torchresidual 0.1.0
unpacked there. The best hand-written form is the one of the same values with the least median. A ratio is the median of
the paired ratios of blocks, its interval the 2.5th and 97.5th percentile of 1,000 bootstrap medians. A cell fails only
if its whole interval lies beyond the bar.
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
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

import torchresidual

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

OPERATIONS = ("add", "concat", "multiply", "gated", "highway")
ALPHAS = ("1", "0.3", "learned")
PASSES = ("inference", "forward", "step")
SIZES = ("4x16", "64x256", "2048x256", "1024x1024")
SHAPES = ("block in block", "nested Sequential", "custom layer")
BLOCK_S = 0.002  # a block of calls is at least so long


@dataclass(frozen=True, slots=True)
class Row:
    """One cell of the table."""

    operation: str
    alpha: str
    size: str
    measured: str
    threads: int
    ours_s: float
    best: str
    ratio: float
    low: float
    high: float
    bar: float
    noise: float
    plain_sequential: float
    fused: float | None
    peer: float | None

    @property
    def fails(self) -> bool:
        """Whether the whole interval lies beyond the bar."""
        return self.low > self.bar


class Hand(nn.Module):
    """A hand-written forward: a layer, then one expression of its output, its input and alpha."""

    def __init__(self, layer: nn.Module, form: Callable[[Tensor, Tensor, Any], Tensor], alpha: Any) -> None:  # noqa: ANN401
        super().__init__()
        self.layer = layer
        self.form = form
        self.alpha = alpha
        self.is_learned = isinstance(alpha, nn.Module)

    def forward(self, x: Tensor) -> Tensor:
        """Run the layer and the expression."""
        alpha = self.alpha() if self.is_learned else self.alpha
        out: Tensor = self.form(self.layer(x), x, alpha)
        return out


class HandHighway(nn.Module):
    """The highway written by hand, on the gates of a block."""

    def __init__(self, layer: nn.Module, gates: nn.Module) -> None:
        super().__init__()
        self.layer = layer
        self.transform = gates.get_submodule("transform_gate")
        self.carry = gates.get_submodule("carry_gate")

    def forward(self, x: Tensor) -> Tensor:
        """Run it."""
        y: Tensor = self.layer(x)
        out: Tensor = torch.sigmoid(self.transform(y)) * y + torch.sigmoid(self.carry(x)) * x
        return out


class Custom(nn.Module):
    """A layer of the user's own."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        """Run it."""
        y: Tensor = self.layer(x)
        return y


FORMS: dict[str, dict[str, Callable[[Tensor, Tensor, Any], Tensor]]] = {
    "add": {
        "x + a*r": lambda x, r, a: x + a * r,
        "torch.add": lambda x, r, a: torch.add(x, r, alpha=a) if isinstance(a, float) else x + a * r,
        "addcmul": lambda x, r, a: torch.addcmul(x, r, a) if isinstance(a, Tensor) else x + a * r,
    },
    "concat": {"cat": lambda x, r, _: torch.cat([x, r], -1)},
    "multiply": {"x * (1 + a*r)": lambda x, r, a: x * (1 + a * r)},
    "gated": {
        "(1-a)*x + a*r": lambda x, r, a: (1 - a) * x + a * r,
        "torch.add": lambda x, r, a: (
            torch.add((1 - a) * x, r, alpha=a) if isinstance(a, float) else (1 - a) * x + a * r
        ),
    },
}
# Faster, and of other values where infinities meet.
FUSED: dict[str, Callable[[Tensor, Tensor, Any], Tensor]] = {
    "multiply": lambda x, r, a: (
        torch.addcmul(x, x, r, value=a) if isinstance(a, float) else torch.addcmul(x, x, a * r)
    ),
    "gated": torch.lerp,
}


def weight(alpha: str, library: ModuleType) -> Any:  # noqa: ANN401 - a number or a LearnableAlpha
    """Return alpha as it is given to an Apply."""
    return library.LearnableAlpha(0.3) if alpha == "learned" else float(alpha)


def variants(operation: str, alpha: str, width: int, peer: ModuleType | None) -> dict[str, nn.Module]:
    """Return what runs in a cell, by name; all share one layer."""
    layer = nn.Linear(width, width)
    block = torchresidual.ResidualSequential(
        torchresidual.Record(), layer, torchresidual.Apply(operation, alpha=weight(alpha, torchresidual))
    )
    found: dict[str, nn.Module] = {"ours": block}
    if operation == "highway":
        found["hand: plain"] = HandHighway(layer, block.get_submodule("2.gate_layer"))
    else:
        for index, (name, form) in enumerate(FORMS[operation].items()):
            if index == 0 and alpha == "1" and operation == "add":
                found["hand: x + r"] = Hand(layer, lambda x, r, _: x + r, 1.0)
            found[f"hand: {name}"] = Hand(layer, form, weight(alpha, torchresidual))
    if operation in FUSED:
        found["fused"] = Hand(layer, FUSED[operation], weight(alpha, torchresidual))
    first = next(name for name in found if name.startswith("hand"))
    found["again"] = found[first]
    found["no skip"] = nn.Sequential(layer)
    if peer is not None:
        found["peer"] = peer.ResidualSequential(
            peer.Record(), layer, peer.Apply(operation, alpha=weight(alpha, peer))
        )
        with torch.no_grad():
            found["peer"](torch.zeros(1, width))  # it makes its gates in the first call, whatever the mode
    return found


def shaped(shape: str, width: int) -> dict[str, nn.Module]:
    """Return the variants of a block of a special shape."""
    rs, record, apply = torchresidual.ResidualSequential, torchresidual.Record, torchresidual.Apply
    layer = nn.Linear(width, width)
    plain = Hand(layer, lambda x, r, _: x + r, 1.0)
    if shape == "block in block":
        outer = Hand(plain, lambda x, r, _: x + r, 1.0)
        ours: nn.Module = rs(record(), rs(record(), layer, apply()), apply())
        return {
            "ours": ours,
            "hand: x + r": outer,
            "again": outer,
            "no skip": nn.Sequential(nn.Sequential(layer)),
        }
    if shape == "nested Sequential":
        ours = rs(nn.Sequential(record(name="r"), layer), apply(record_name="r"))
        inner = Hand(nn.Sequential(layer), lambda x, r, _: x + r, 1.0)
        return {
            "ours": ours,
            "hand: x + r": inner,
            "again": inner,
            "no skip": nn.Sequential(nn.Sequential(layer)),
        }
    custom = Custom(layer)
    hand = Hand(custom, lambda x, r, _: x + r, 1.0)
    return {
        "ours": rs(record(), custom, apply()),
        "hand: x + r": hand,
        "again": hand,
        "no skip": nn.Sequential(custom),
    }


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


def timed(call: Callable[[], None], calls: int) -> float:
    """Return the seconds that one call of a block of calls takes."""
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls


def measure(
    modules: dict[str, nn.Module], x: Tensor, measured: str, blocks: int, rng: random.Random
) -> dict[str, list[float]]:
    """Return the seconds per call of each variant, block by block, interleaved in random order."""
    samples: dict[str, list[float]] = {name: [] for name in modules}
    with torch.inference_mode() if measured == "inference" else nullcontext():
        calls = {name: caller(module, x, measured) for name, module in modules.items()}
        slowest = max(min(timed(call, 3) for _ in range(3)) for call in calls.values())
        per_block = max(1, int(BLOCK_S / slowest))
        for _ in range(blocks):
            order = list(calls)
            rng.shuffle(order)
            for name in order:
                samples[name].append(timed(calls[name], per_block))
    return samples


def ratio(a: list[float], b: list[float], rng: random.Random) -> tuple[float, float, float]:
    """Return the median of the paired ratios a/b and its 95% bootstrap interval."""
    ratios = [one / other for one, other in zip(a, b, strict=True)]
    medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(1000))
    return statistics.median(ratios), medians[25], medians[974]


def bar_of(operation: str, measured: str, size: str) -> float:
    """Return the ratio that a cell may have at most."""
    small = size == "4x16"
    if operation in SHAPES:
        return 1.15 if small else 1.05
    if measured == "forward":
        return 1.10 if small else 1.03
    return 1.08 if small else 1.02


def cells(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Yield the operations with each kind of alpha that has a part in them."""
    for operation in options.operations:
        kinds = ("1",) if operation in ("concat", "highway", *SHAPES) else ALPHAS
        yield from ((operation, alpha) for alpha in kinds if alpha in options.alphas)


def rows(options: argparse.Namespace, peer: ModuleType | None) -> Iterator[Row]:
    """Measure cell by cell."""
    rng = random.Random(options.seed)
    for size in options.sizes:
        batch, width = (int(part) for part in size.split("x"))
        for operation, alpha in cells(options):
            torch.manual_seed(0)
            modules = (
                shaped(operation, width) if operation in SHAPES else variants(operation, alpha, width, peer)
            )
            x = torch.randn(batch, width)
            for measured in options.passes:
                samples = measure(modules, x, measured, options.blocks, rng)
                hands = [name for name in samples if name.startswith("hand")]
                best = min(hands, key=lambda name: statistics.median(samples[name]))
                value, low, high = ratio(samples["ours"], samples[best], rng)
                yield Row(
                    operation=operation,
                    alpha=alpha,
                    size=size,
                    measured=measured,
                    threads=torch.get_num_threads(),
                    ours_s=statistics.median(samples["ours"]),
                    best=best.removeprefix("hand: "),
                    ratio=value,
                    low=low,
                    high=high,
                    bar=bar_of(operation, measured, size),
                    noise=ratio(samples["again"], samples[hands[0]], rng)[0],
                    plain_sequential=ratio(samples["ours"], samples["no skip"], rng)[0],
                    fused=ratio(samples["ours"], samples["fused"], rng)[0] if "fused" in samples else None,
                    peer=ratio(samples["peer"], samples[best], rng)[0] if "peer" in samples else None,
                )


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


def line(row: Row) -> str:
    """Return a row of the table."""
    fused, peer = ("      -" if value is None else f"{value:7.2f}" for value in (row.fused, row.peer))
    return (
        f"{row.operation:17} {row.alpha:8} {row.size:10} {row.measured:9} {row.ours_s * 1e6:9.1f} "
        f"{row.ratio:6.3f} {row.low:6.3f}-{row.high:5.3f} {row.bar:5.2f} {'FAIL' if row.fails else 'ok':4} "
        f"{row.noise:6.3f} {row.plain_sequential:8.2f} {fused} {peer}  {row.best}"
    )


def main() -> int:
    """Print the table; return 1 if a cell fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name, choices in (
        ("--operations", [*OPERATIONS, *SHAPES]),
        ("--alphas", [*ALPHAS]),
        ("--sizes", [*SIZES]),
        ("--passes", [*PASSES]),
    ):
        parser.add_argument(name, nargs="+", metavar="NAME", default=choices, help=f"of {', '.join(choices)}")
    parser.add_argument("--blocks", type=int, default=200, help="blocks of calls per variant")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--peer", help="folder with the published torchresidual 0.1.0")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    peer = published(options.peer) if options.peer else None
    if not options.json:
        print(
            f"{'operation':17} {'alpha':8} {'size':10} {'pass':9} {'ours µs':>9} {'ratio':>6} {'95%':>12} {'bar':>5}"
            f"{'':6} {'noise':>6} {'/no skip':>8} {'/fused':>7} {'peer':>7}  best hand-written"
        )
    found = []
    for row in rows(options, peer):
        found.append(row)
        if not options.json:
            print(line(row), flush=True)
    if options.json:
        print(json.dumps([{**asdict(row), "fails": row.fails} for row in found], indent=2))
    return 1 if any(row.fails for row in found) else 0


if __name__ == "__main__":
    sys.exit(main())
