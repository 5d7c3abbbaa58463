"""Whether the numbers of ``rescli bench`` are true on this machine.

    python benchmarks/truth.py                      all bars, a quarter of an hour on a quiet machine
    python benchmarks/truth.py --pairs 20 --json truth.json

Two copies of one block are compared many times: a verdict of faster or slower is then false. The same with one copy
that spins for 3% or 5% of the time that its own call took: there the verdict must be slower. Last, medians are held
against ``torch.utils.benchmark`` on the same call in the same process. The exit code is 1 if a bar is missed; a machine
that is busy with something else misses them, so the load is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.utils.benchmark import Timer

import rescli
from rescli.bench.compare import MARGIN
from torchresidual import Apply, Record, ResidualSequential

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rescli.bench.result import Comparison

WIDTH, BATCH = 256, 32
# Rounds of timer, rescli, timer for each block that is held against torch.utils.benchmark.
ROUNDS = 5


class Slowed(nn.Module):
    """A module whose calls take longer by a share of themselves.

    Args:
        module: What is called.
        share: How much longer, as 0.05.
    """

    def __init__(self, module: nn.Module, share: float) -> None:
        super().__init__()
        self.module = module
        self.share = share

    def forward(self, x: Tensor) -> Tensor:
        """Call the module and spin for a while."""
        started = time.perf_counter()
        out: Tensor = self.module(x)
        now = time.perf_counter()
        # Without a share there is no turn of the loop, and the rest is the same.
        until = now + self.share * (now - started)
        while now < until:
            now = time.perf_counter()
        return out


class Waits(nn.Module):
    """A module that does nothing for a known time.

    Args:
        seconds: How long.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def forward(self, x: Tensor) -> Tensor:
        """Spin."""
        until = time.perf_counter() + self.seconds
        while time.perf_counter() < until:
            pass
        return x


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the table.

    Args:
        what: What was tried.
        bar: What it must be.
        found: What it is.
        held: Whether that is within the bar.
    """

    what: str
    bar: str
    found: str
    held: bool


def block() -> nn.Module:
    """Make a block of a tenth of a millisecond or so."""
    return ResidualSequential(
        Record(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), Apply()
    )


def compared(a: nn.Module, b: nn.Module, x: Tensor, max_time_s: float, seed: int) -> Comparison:
    """Compare two modules with the settings of the command."""
    found = rescli.benchmark(
        a, x, versus=b, passes=["inference"], threads=1, max_time_s=max_time_s, seed=seed
    )
    return found.comparisons[0]


def verdicts(share: float, pairs: int, max_time_s: float) -> list[Comparison]:
    """Compare a block with a copy that takes longer by a share, many times."""
    found = []
    for seed in range(pairs):
        torch.manual_seed(seed)
        module, x = block(), torch.randn(BATCH, WIDTH)
        found.append(compared(Slowed(module, 0.0), Slowed(module, share), x, max_time_s, seed))
        if sys.stderr.isatty():
            print(f"\r{share:.0%}: {seed + 1} of {pairs} pairs ", end="", file=sys.stderr, flush=True)
    return found


def false_verdicts(pairs: int, max_time_s: float) -> Finding:
    """Count verdicts between two copies of one block."""
    found = [one.verdict for one in verdicts(0.0, pairs, max_time_s)]
    wrong = sum(verdict in ("faster", "slower") for verdict in found)
    same = found.count("same")
    return Finding(
        f"A against A, {pairs} pairs: faster or slower",
        "at most 1%",
        f"{wrong} ({wrong / pairs:.1%}); {same} same, {pairs - wrong - same} inconclusive",
        wrong <= 0.01 * pairs,
    )


def detections(share: float, bar: float, pairs: int, max_time_s: float) -> Finding:
    """Count how often a slower copy is found."""
    found = verdicts(share, pairs, max_time_s)
    slower = sum(one.verdict == "slower" for one in found)
    middle = median(one.ratio for one in found)
    return Finding(
        f"A against A + {share:.0%}, {pairs} pairs: slower",
        f"at least {bar:.0%}",
        f"{slower} ({slower / pairs:.0%}); median ratio {middle:.4f}",
        slower >= bar * pairs,
    )


def known_waits(max_time_s: float) -> Finding:
    """Compare a module that waits 1 ms with one that waits 1.05 ms."""
    one = compared(Waits(1e-3), Waits(1.05e-3), torch.ones(1), max_time_s, 0)
    held = one.verdict == "slower" and abs(one.ratio - 1.05) <= 0.01
    return Finding(
        "1 ms against 1.05 ms of waiting", "slower, 1.05 ± 0.01", f"{one.verdict}, {one.ratio:.4f}", held
    )


def agreements(max_time_s: float) -> Iterator[Finding]:
    """Hold medians against those of torch.utils.benchmark, on the same module in the same process."""
    cases = {
        "Linear 64, batch 8": (nn.Linear(64, 64), torch.randn(8, 64)),
        f"block of width {WIDTH}": (block(), torch.randn(BATCH, WIDTH)),
        "Conv2d 16, 32x32": (nn.Conv2d(16, 16, 3, padding=1), torch.randn(8, 16, 32, 32)),
    }
    for name, (module, x) in cases.items():
        module.eval()
        ours: list[float] = []
        theirs: list[float] = []
        for seed in range(ROUNDS):
            theirs.append(timed(module, x))
            row = rescli.benchmark(
                module, x, passes=["inference"], threads=1, max_time_s=max_time_s, seed=seed
            ).results[0]
            theirs.append(timed(module, x))
            ours += [row.statistics.median_s] if row.statistics is not None else []
        # Of several rounds the middle one: a moment in which the machine was busy decides nothing.
        off = median(ours) / median(theirs) - 1
        yield Finding(f"{name}: against torch.utils.benchmark", "within 3%", f"{off:+.1%}", abs(off) <= 0.03)


def timed(module: nn.Module, x: Tensor) -> float:
    """Give the median of torch's own timer, in seconds."""
    # Inference mode is entered outside: entering it in each call would be timed.
    timer = Timer("module(x)", globals={"module": module, "x": x}, num_threads=1)
    with torch.inference_mode():
        return timer.blocked_autorange(min_run_time=0.5).median


def main() -> int:
    """Measure, print the table and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pairs", type=int, default=100, help="pairs for each share")
    parser.add_argument(
        "--max-time", type=float, default=10.0, help="most seconds for a pair, as of the command"
    )
    parser.add_argument("--json", type=Path, help="write what was found to this file as well")
    options = parser.parse_args()
    load_before = os.getloadavg()[0]
    started_s = time.monotonic()
    findings = [
        known_waits(options.max_time),
        *agreements(options.max_time),
        false_verdicts(options.pairs, options.max_time),
        detections(0.03, 0.80, options.pairs, options.max_time),
        detections(0.05, 0.95, options.pairs, options.max_time),
    ]
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    width = max(len(finding.what) for finding in findings)
    for finding in findings:
        held = "ok" if finding.held else "MISSED"
        print(f"{held:6}  {finding.what:{width}}  {finding.bar:19}  {finding.found}")
    took_s = time.monotonic() - started_s
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    print(
        f"\ntorch {torch.__version__}, {cores} cores, load {load_before:.1f} before and {os.getloadavg()[0]:.1f} "
        f"after, margin {MARGIN:.0%}, {took_s:.0f} s"
    )
    if options.json is not None:
        options.json.write_text(
            json.dumps([asdict(finding) for finding in findings], indent=2), encoding="utf-8"
        )
    return 0 if all(finding.held for finding in findings) else 1


if __name__ == "__main__":
    sys.exit(main())
