"""Order statistics of a sample of times: nothing is thrown away, nothing is assumed about their shape."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from rescli.bench.result import Statistics

if TYPE_CHECKING:
    from collections.abc import Sequence

# Below six samples even smallest to largest covers the true median less often than 95 times of 100.
FEWEST_FOR_INTERVAL = 6
# Below this the 95th percentile would be one of the three largest values.
FEWEST_FOR_P95 = 60


def summarise(samples: Sequence[float]) -> Statistics:
    """Work out what a set of samples says.

    Args:
        samples: Seconds of one call each, at least one value, in any order.

    Raises:
        ValueError: There is no sample.

    Example:
        >>> summarise([0.003, 0.001, 0.002]).median_s
        0.002
    """
    ordered = sorted(samples)
    return Statistics(
        median_s=quantile(ordered, 0.5),
        iqr_s=quantile(ordered, 0.75) - quantile(ordered, 0.25),
        min_s=ordered[0],
        ci95_s=median_interval(ordered),
        p95_s=quantile(ordered, 0.95) if len(ordered) >= FEWEST_FOR_P95 else None,
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    """Interpolate linearly between order statistics, as numpy does by default.

    Args:
        ordered: Values in ascending order, at least one.
        share: 0 for the smallest, 1 for the largest.

    Raises:
        ValueError: There is no value.

    Example:
        >>> quantile([1.0, 2.0, 4.0], 0.75)
        3.0
    """
    if not ordered:
        raise ValueError("a quantile needs at least one value")
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    low, high = ordered[below], ordered[above]
    # In this form equal neighbours give exactly their value.
    return low + (high - low) * (place - below)


def median_interval(ordered: Sequence[float]) -> tuple[float, float] | None:
    """Give the order statistics that enclose the true median with at least 95% confidence.

    Each sample lies below the true median with probability one half, so how many do is binomial; no other
    assumption enters (David and Nagaraja, Order Statistics, section 7.1).

    Args:
        ordered: Samples in ascending order.

    Returns:
        The two ends, or None for fewer than six samples, which cannot give 95%.

    Example:
        >>> median_interval([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
        (1.0, 6.0)
    """
    rank = interval_rank(len(ordered))
    if rank == 0:
        return None
    return ordered[rank - 1], ordered[-rank]


@lru_cache(maxsize=256)
def interval_rank(count: int) -> int:
    """Give the largest k for which the k-th smallest to the k-th largest covers the median in 95%.

    Args:
        count: Number of samples.

    Returns:
        The rank k, from 1; 0 if not even the whole range covers it.

    Example:
        >>> interval_rank(30)
        10
    """
    # Uncovered are both tails: 2 * sum(C(n, i), i < k) / 2**n <= 1/20, in whole numbers.
    allowed = 2**count
    tail, term, rank = 0, 1, 0
    while 40 * (tail + term) <= allowed:
        tail += term
        term = term * (count - rank) // (rank + 1)
        rank += 1
    return rank
