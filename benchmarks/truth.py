"""Whether the numbers of ``rescli bench`` are true on this machine.

    python benchmarks/truth.py                      all bars, at most twelve minutes
    python benchmarks/truth.py --pairs 20 --json truth.json
    python benchmarks/truth.py --only agreement

Two copies of one block are compared many times: a verdict of faster or slower is then false. The same with one copy
that spins for 3% or 5% of the time that its own call took: there the verdict must be slower. A pair gets less time than
the command gives a target, so what holds here holds there. Last, medians are held against ``torch.utils.benchmark``: in
each of several rounds both time one object in turns, with one thread and without autograd. The exit code is 1 if a bar
is missed; a machine that is busy with something else misses them, so the load is printed.
"""

from __future__ import annotations

import argparse
import json
import math
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
from rescli.bench.clock import HostClock
from rescli.bench.compare import MARGIN, Ratio, paired_ratio
from rescli.bench.engine import Engine
from rescli.bench.passes import Inference
from rescli.bench.settings import thread_setting
from rescli.bench.stopwatch import ClockStopwatch
from rescli.bench.subject import Limits, Subject, side_by_side
from torchresidual import Apply, Record, ResidualSequential

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rescli.bench.result import Comparison, PassName

WIDTH, BATCH = 256, 32
# Rounds of timer, rescli, timer for each block that is held against torch.utils.benchmark, and how long each takes.
ROUNDS, TURN_S = 15, 0.1
PARTS = ("waits", "agreement", "verdicts")


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


def compared(a: nn.Module, b: nn.Module, x: Tensor, max_time_s: float, seed: int) -> Comparison | None:
    """Compare two modules with the settings of the command; None if a busy machine left no time for a pair."""
    found = rescli.benchmark(
        a, x, versus=b, passes=["inference"], threads=1, max_time_s=max_time_s, seed=seed
    )
    return next(iter(found.comparisons), None)


def verdicts(share: float, pairs: int, max_time_s: float) -> list[Comparison]:
    """Compare a block with a copy that takes longer by a share, many times; a pair without a verdict is left out."""
    found: list[Comparison] = []
    for seed in range(pairs):
        torch.manual_seed(seed)
        module, x = block(), torch.randn(BATCH, WIDTH)
        one = compared(Slowed(module, 0.0), Slowed(module, share), x, max_time_s, seed)
        found += [] if one is None else [one]
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
    middle = median(one.ratio for one in found) if found else math.nan
    return Finding(
        f"A against A + {share:.0%}, {pairs} pairs: slower",
        f"at least {bar:.0%}",
        f"{slower} ({slower / pairs:.0%}); median ratio {middle:.4f}",
        slower >= bar * pairs,
    )


def known_waits(max_time_s: float) -> Finding:
    """Compare a module that waits 1 ms with one that waits 1.05 ms."""
    one = compared(Waits(1e-3), Waits(1.05e-3), torch.ones(1), max_time_s, 0)
    held = one is not None and one.verdict == "slower" and abs(one.ratio - 1.05) <= 0.01
    said = f"{one.verdict}, {one.ratio:.4f}" if one is not None else "no time for a sample"
    return Finding("1 ms against 1.05 ms of waiting", "slower, 1.05 ± 0.01", said, held)


def agreements(max_time_s: float) -> Iterator[Finding]:
    """Hold medians against those of torch.utils.benchmark, on the same object in the same process."""
    cases = {
        "Linear 64, batch 8": (nn.Linear(64, 64), torch.randn(8, 64)),
        f"block of width {WIDTH}": (block(), torch.randn(BATCH, WIDTH)),
        "Conv2d 16, 32x32": (nn.Conv2d(16, 16, 3, padding=1), torch.randn(8, 16, 32, 32)),
    }
    for name, (module, x) in cases.items():
        # Copies lie elsewhere in memory, which alone makes a small call some percent faster or slower.
        same = Uncopied(module.eval())
        found = in_turns(same, x, max_time_s)
        low, high = found.ci95 or (math.nan, math.nan)
        yield Finding(
            f"{name}: against its timeit, in turns",
            "within 3%",
            f"{found.ratio - 1:+.1%} ({low - 1:+.1%} to {high - 1:+.1%})",
            abs(found.ratio - 1) <= 0.03,
        )
        ratios = list(in_rounds(same, x))
        off = median(ratios) - 1
        spread = f"rounds {min(ratios) - 1:+.1%} to {max(ratios) - 1:+.1%}"
        yield Finding(
            f"{name}: against its blocked_autorange", "within 3%", f"{off:+.1%} ({spread})", abs(off) <= 0.03
        )


def in_turns(module: nn.Module, x: Tensor, max_time_s: float) -> Ratio:
    """Let rescli's and PyTorch's loops take turns of a millisecond, which neither drift nor load tells apart."""
    clock = HostClock()
    subjects = [
        Subject("theirs", ("inference",), lambda: TorchTimer(module, x)),
        Subject("ours", ("inference",), lambda: Inference(module, [x]), variant="ours"),
    ]
    machine = Engine(subjects, ClockStopwatch(clock), Limits(clock.now_s() + max_time_s, max_time_s))
    with thread_setting(1):
        machine.open()
        machine.sample()
    theirs, ours = machine.series()
    return paired_ratio(*side_by_side(theirs, ours))


def in_rounds(module: nn.Module, x: Tensor) -> Iterator[float]:
    """Give rescli's median over PyTorch's, from the moment before and the moment after, round by round."""
    for seed in range(ROUNDS):
        before_s = timed(module, x)
        row = rescli.benchmark(
            module, x, passes=["inference"], threads=1, min_time_s=TURN_S, max_time_s=5 * TURN_S, seed=seed
        ).results[0]
        after_s = timed(module, x)
        if row.statistics is not None:
            yield row.statistics.median_s / ((before_s + after_s) / 2)


class TorchTimer:
    """Calls in the loop of PyTorch's own timer, as an exercise of rescli's engine.

    Args:
        module: What is called.
        x: Its input.
    """

    # It reads its clock around a few calls to warm up, then around those that count.
    parts: Mapping[PassName, tuple[int, ...]] = {"inference": (2,)}
    period = 3

    def __init__(self, module: nn.Module, x: Tensor) -> None:
        self._mark: Callable[[], object] = list
        self._timer = Timer(
            "module(x)", globals={"module": module, "x": x}, num_threads=1, timer=self._read_clock
        )

    def _read_clock(self) -> float:
        self._mark()
        return time.perf_counter()

    def run(self, iterations: int, mark: Callable[[], None]) -> None:
        """Call the module, with a mark wherever the timer reads its clock."""
        self._mark = mark
        with torch.inference_mode():
            self._timer.timeit(iterations)


class Uncopied(nn.Module):
    """A module whose copies are itself, so that everybody calls the very same object.

    Args:
        module: What is called.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def __deepcopy__(self, _memo: object) -> Uncopied:
        return self

    def forward(self, x: Tensor) -> Tensor:
        """Call the module."""
        out: Tensor = self.module(x)
        return out


def timed(module: nn.Module, x: Tensor) -> float:
    """Give the median of torch's own timer, in seconds."""
    # Inference mode is entered outside: entering it in each call would be timed.
    timer = Timer("module(x)", globals={"module": module, "x": x}, num_threads=1)
    with torch.inference_mode():
        return float(timer.blocked_autorange(min_run_time=TURN_S).median)


def estimated_s(options: argparse.Namespace) -> float:
    """Try one pair, and say how long all that is asked for will take at most."""
    pair_s = 0.0
    if "verdicts" in options.only:
        started_s = time.monotonic()
        verdicts(0.0, 1, options.max_time)
        # A pair may end early or, on a busy machine, take all the time it has.
        pair_s = max(time.monotonic() - started_s, options.max_time + 0.3)
    rounds_s = 3 * (options.max_time + 12 * ROUNDS * TURN_S) if "agreement" in options.only else 0.0
    return float(3 * options.pairs * pair_s + rounds_s)


def findings_of(options: argparse.Namespace) -> Iterator[Finding]:
    """Measure what is asked for, one bar after the other."""
    if "waits" in options.only:
        yield known_waits(options.max_time)
    if "agreement" in options.only:
        yield from agreements(options.max_time)
    if "verdicts" in options.only:
        yield false_verdicts(options.pairs, options.max_time)
        yield detections(0.03, 0.80, options.pairs, options.max_time)
        yield detections(0.05, 0.95, options.pairs, options.max_time)


def main() -> int:
    """Measure, print the table and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pairs", type=int, default=100, help="pairs for each share")
    parser.add_argument(
        "--max-time", type=float, default=1.8, help="most seconds for a pair; the command takes 10"
    )
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="some of the bars")
    parser.add_argument("--json", type=Path, help="write what was found to this file as well")
    options = parser.parse_args()
    load_before = os.getloadavg()[0]
    started_s = time.monotonic()
    print(f"this takes at most {estimated_s(options) / 60:.0f} minutes", file=sys.stderr)
    findings = list(findings_of(options))
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
