"""Which of two is faster, and how sure that is: the bootstrap of a ratio of times.

The statistic is a median, of the ratios of samples that were taken side by side or of each side's times where they
were not. A resample's median is one of its middle order statistics, and these can be drawn without drawing the
resample: the k-th smallest of n values picked with replacement is the value at the place ``ceil(n * u)``, where u is
the k-th smallest of n uniform numbers and so follows Beta(k, n - k + 1). A comparison of thousands of samples takes
milliseconds (Efron, The Jackknife, the Bootstrap and Other Resampling Plans, section 10.3).
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rescli.bench.stats import FEWEST_FOR_INTERVAL, quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rescli.bench.result import Verdict

# Closer to one than this, two times are called the same.
MARGIN = 0.01
_RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times as long one thing takes as another.

    Args:
        ratio: Time of b over time of a.
        ci95: Interval that holds the true ratio with 95% confidence; None below six samples.
    """

    ratio: float
    ci95: tuple[float, float] | None

    @property
    def relative_width(self) -> float:
        """Width of the interval over the ratio; infinite without an interval."""
        return math.inf if self.ci95 is None else (self.ci95[1] - self.ci95[0]) / self.ratio


def paired_ratio(times_a: Sequence[float], times_b: Sequence[float], *, seed: int = 0) -> Ratio:
    """Compare samples that were taken in pairs, so that a machine that drifts drifts for both.

    Args:
        times_a: Seconds, above 0.
        times_b: Seconds; each was taken beside the one of the same place in ``times_a``.
        seed: Decides the resamples.

    Raises:
        ValueError: There is no pair, or one side has more samples.

    Example:
        >>> paired_ratio([1.0, 2.0, 4.0], [1.1, 2.2, 4.4]).ratio
        1.1
    """
    logs = sorted(math.log(b / a) for a, b in zip(times_a, times_b, strict=True))
    ratio = _unlogged(quantile(logs, 0.5))
    if len(logs) < FEWEST_FOR_INTERVAL:
        return Ratio(ratio, None)
    draw = random.Random(seed)  # noqa: S311 - resampling, no secret
    return Ratio(ratio, _interval([_resampled_median(logs, draw) for _ in range(_RESAMPLES)]))


def unpaired_ratio(times_a: Sequence[float], times_b: Sequence[float], *, seed: int = 0) -> Ratio:
    """Compare samples of two runs: the ratio of their medians.

    Args:
        times_a: Seconds, above 0, in any order.
        times_b: Seconds, above 0, in any order; there may be more or fewer.
        seed: Decides the resamples.

    Raises:
        ValueError: A side has no sample.

    Example:
        >>> unpaired_ratio([1.0, 2.0, 3.0], [4.0]).ratio
        2.0
    """
    logs_a, logs_b = (sorted(map(math.log, times)) for times in (times_a, times_b))
    ratio = _unlogged(quantile(logs_b, 0.5) - quantile(logs_a, 0.5))
    if min(len(logs_a), len(logs_b)) < FEWEST_FOR_INTERVAL:
        return Ratio(ratio, None)
    draw = random.Random(seed)  # noqa: S311 - resampling, no secret
    medians = [_resampled_median(logs_b, draw) - _resampled_median(logs_a, draw) for _ in range(_RESAMPLES)]
    return Ratio(ratio, _interval(medians))


def judge(found: Ratio, margin: float = MARGIN) -> Verdict:
    """Say what a ratio means for b against a.

    Args:
        found: The ratio and its interval.
        margin: How far from one the whole interval must lie for a difference, as 0.01.

    Returns:
        ``slower`` or ``faster`` if the whole interval lies beyond the margin, ``same`` if it lies within,
        else ``inconclusive``.

    Example:
        >>> judge(Ratio(1.05, (1.03, 1.07)))
        'slower'
        >>> judge(Ratio(1.05, (1.005, 1.1)))
        'inconclusive'
    """
    if found.ci95 is None:
        return "inconclusive"
    low, high = found.ci95
    if low > 1 + margin:
        return "slower"
    if high < 1 - margin:
        return "faster"
    return "same" if 1 - margin < low and high < 1 + margin else "inconclusive"


def _resampled_median(ordered: Sequence[float], draw: random.Random) -> float:
    """Draw the median of as many values picked from these with replacement.

    Args:
        ordered: Values in ascending order.
        draw: Random numbers.
    """
    count = len(ordered)
    middle = (count + 1) // 2
    share = draw.betavariate(middle, count - middle + 1)
    lower = ordered[_place(share, count)]
    if count % 2:
        return lower
    # Of the other half, all above, the smallest uniform number is the next order statistic.
    share = 1 - (1 - share) * draw.random() ** (1 / (count - middle))
    return (lower + ordered[_place(share, count)]) / 2


def _place(share: float, count: int) -> int:
    return min(count - 1, int(share * count))


def _interval(logs: list[float]) -> tuple[float, float]:
    logs.sort()
    return _unlogged(quantile(logs, 0.025)), _unlogged(quantile(logs, 0.975))


def _unlogged(log: float) -> float:
    # exp(log(1.1)) is not 1.1: the last digit of sixteen says nothing about a time.
    return float(f"{math.exp(log):.12g}")
