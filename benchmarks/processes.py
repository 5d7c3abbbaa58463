"""What whole commands take beside each other: time and memory of processes, as ratios from one run.

All commands run once to warm up, then round by round in random order, so that a machine that gets slower meanwhile
slows all of them. A ratio is the median of the paired ratios of the rounds, its interval the 2.5th and 97.5th
percentile of 1,000 bootstrap medians. A bar is missed only if the whole interval lies beyond it.
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

BASE = "import torch"
_LIMIT_S = 120.0


@dataclass(frozen=True, slots=True)
class Case:
    """A command that is measured.

    Args:
        name: What the table calls it.
        arguments: What follows ``python``.
        bar: The most that its time may be of the time of ``import torch``; None without one.
        memory_bar_mb: The most that its memory may lie above that of ``import torch``; None without one.
        exits: The exit code that it must end with.
    """

    name: str
    arguments: tuple[str, ...]
    bar: float | None = None
    memory_bar_mb: float | None = None
    exits: int = 0


@dataclass(frozen=True, slots=True)
class Sample:
    """What one run took."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table: medians, and ratios to ``import torch``."""

    name: str
    wall_s: float | None
    ratio: float | None
    low: float | None
    high: float | None
    bar: float | None
    cpu_ratio: float | None
    extra_mb: float | None
    memory_bar_mb: float | None
    problem: str

    @property
    def fails(self) -> bool:
        """Whether a bar is missed, or the command failed that has one."""
        if self.problem:
            return self.bar is not None
        too_slow = self.bar is not None and self.low is not None and self.low > self.bar
        return too_slow or (
            self.memory_bar_mb is not None
            and self.extra_mb is not None
            and self.extra_mb > self.memory_bar_mb
        )


def environment() -> dict[str, str]:
    """Return the environment of the commands: Python may keep what it has compiled, as it does when installed."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


def run(case: Case, folder: Path) -> Sample:
    """Run one command and return what it took.

    Linux counts as a process's memory what its parent had when it started it: only a small parent measures memory.
    """
    with tempfile.TemporaryFile() as errors:
        started = time.perf_counter()
        process = subprocess.Popen(  # noqa: S603 - commands of ours
            [sys.executable, *case.arguments],
            cwd=folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        code, usage = _wait(process, started + _LIMIT_S)
        wall_s = time.perf_counter() - started
        errors.seek(0)
        said = errors.read().decode(errors="replace").strip().splitlines()
    problem = "" if code == case.exits else f"exit code {code}: {said[-1] if said else 'no message'}"
    return Sample(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / _MAXRSS_PER_MB, problem)


# Linux counts in KiB, macOS in bytes.
_MAXRSS_PER_MB = 1024.0**2 if sys.platform == "darwin" else 1024.0


def _wait(process: subprocess.Popen[bytes], until: float) -> tuple[int, Any]:
    """Wait for a process by itself, to get its own figures; one that takes too long is ended."""
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, usage
        if time.perf_counter() > until:
            process.kill()
        time.sleep(0.001)


def measure(cases: Sequence[Case], rounds: int, seed: int, folder: Path) -> dict[str, list[Sample]]:
    """Return the samples of each command, round by round; one that fails is not run again."""
    rng = random.Random(seed)
    warm = {case.name: run(case, folder) for case in cases}
    samples = {name: [sample] if sample.problem else [] for name, sample in warm.items()}
    for _ in range(rounds):
        for case in rng.sample(list(cases), len(cases)):
            if not warm[case.name].problem:
                samples[case.name].append(run(case, folder))
    return samples


def ratio(a: Sequence[float], b: Sequence[float], rng: random.Random) -> tuple[float, float, float]:
    """Return the median of the paired ratios a/b and its 95% bootstrap interval."""
    ratios = [one / other for one, other in zip(a, b, strict=True)]
    medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(1000))
    return statistics.median(ratios), medians[25], medians[974]


def rows(cases: Iterable[Case], samples: Mapping[str, Sequence[Sample]], seed: int) -> list[Row]:
    """Turn samples into ratios to the command named ``import torch``."""
    rng = random.Random(seed)
    base = samples[BASE]
    found = []
    for case in cases:
        own = samples[case.name]
        problem = next((sample.problem for sample in own if sample.problem), "")
        if problem:
            nothing = dict.fromkeys(("wall_s", "ratio", "low", "high", "cpu_ratio", "extra_mb"))
            found.append(
                Row(case.name, bar=case.bar, memory_bar_mb=case.memory_bar_mb, problem=problem, **nothing)
            )
            continue
        value, low, high = ratio([each.wall_s for each in own], [each.wall_s for each in base], rng)
        cpu_ratio = ratio([each.cpu_s for each in own], [each.cpu_s for each in base], rng)[0]
        extra = statistics.median(s.peak_mb for s in own) - statistics.median(s.peak_mb for s in base)
        wall = statistics.median(sample.wall_s for sample in own)
        found.append(
            Row(case.name, wall, value, low, high, case.bar, cpu_ratio, extra, case.memory_bar_mb, "")
        )
    return found


def heading(width: int) -> str:
    """Return the titles of the table."""
    return f"{'command':{width}} {'ms':>7} {'ratio':>6} {'95%':>13} {'bar':>5} {'cpu':>6} {'MB more':>8} {'bar':>5}"


def line(row: Row, width: int) -> str:
    """Return a row of the table."""
    if row.problem:
        return f"{row.name:{width}} {row.problem}"
    verdict = "" if row.bar is None and row.memory_bar_mb is None else "FAIL" if row.fails else "ok"
    assert row.wall_s is not None  # noqa: S101 - without a problem there are figures
    return (
        f"{row.name:{width}} {row.wall_s * 1e3:7.0f} {row.ratio:6.3f} {row.low:6.3f}-{row.high:<6.3f} "
        f"{_number(row.bar):>5} {row.cpu_ratio:6.3f} {row.extra_mb:8.1f} {_number(row.memory_bar_mb):>5}  {verdict}"
    ).rstrip()


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def as_json(found: Iterable[Row]) -> list[dict[str, Any]]:
    """Return rows as JSON has them."""
    return [{**asdict(row), "fails": row.fails} for row in found]


def table(
    cases: Sequence[Case], samples: Mapping[str, Sequence[Sample]], seed: int, say: Callable[[str], None]
) -> list[Row]:
    """Say the table line by line, and return its rows."""
    width = max(len(case.name) for case in cases)
    found = rows(cases, samples, seed)
    say(heading(width))
    for row in found:
        say(line(row, width))
    return found
