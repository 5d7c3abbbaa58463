from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescli.bench.compare import Ratio, judge, paired_ratio, unpaired_ratio
from rescli.bench.stats import median_interval

positive = st.floats(min_value=1e-9, max_value=1e3)


def lognormal(count: int, seed: int, *, around: float = 1.0, sigma: float = 0.05) -> list[float]:
    rng = random.Random(seed)
    return [around * math.exp(rng.gauss(0, sigma)) for _ in range(count)]


# The verdict


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [
        ((1.011, 1.02), "slower"),
        ((1.009, 1.2), "inconclusive"),
        ((0.9, 0.989), "faster"),
        ((0.9, 0.991), "inconclusive"),
        ((0.991, 1.009), "same"),
        ((0.9, 1.1), "inconclusive"),
        (None, "inconclusive"),
    ],
)
def test_only_a_whole_interval_decides(interval: tuple[float, float] | None, verdict: str) -> None:
    assert judge(Ratio(1.0, interval)) == verdict


def test_the_margin_can_be_wider() -> None:
    assert judge(Ratio(1.04, (1.03, 1.049)), 0.05) == "same"
    assert judge(Ratio(1.06, (1.051, 1.08)), 0.05) == "slower"


# The ratio


@given(st.lists(positive, min_size=6, max_size=60), st.floats(min_value=0.1, max_value=10))
def test_an_exact_factor_is_found_exactly_whatever_the_noise(times: list[float], factor: float) -> None:
    found = paired_ratio(times, [factor * time for time in times])
    assert found.ratio == pytest.approx(factor)
    assert found.ci95 == pytest.approx((factor, factor))


def test_drift_that_both_share_cancels_in_pairs_and_only_there() -> None:
    drift = [1 + place / 20 for place in range(60)]
    a = [d * noise for d, noise in zip(drift, lognormal(60, 1, sigma=0.002), strict=True)]
    b = [1.05 * d * noise for d, noise in zip(drift, lognormal(60, 2, sigma=0.002), strict=True)]
    assert judge(paired_ratio(a, b)) == "slower"
    assert judge(unpaired_ratio(a, b)) == "inconclusive"


def test_outliers_do_not_decide() -> None:
    a, b = lognormal(60, 3, sigma=0.002), lognormal(60, 4, sigma=0.002)
    for place in range(0, 60, 5):
        b[place] *= 50
    assert judge(paired_ratio(a, b)) == "same"


def test_the_sides_are_not_confused() -> None:
    a, b = lognormal(40, 5, sigma=0.01), lognormal(40, 6, around=2.0, sigma=0.01)
    there, back = paired_ratio(a, b), paired_ratio(b, a)
    assert there.ratio == pytest.approx(2, rel=0.01)
    assert there.ratio == pytest.approx(1 / back.ratio)
    assert judge(there) == "slower"
    assert judge(back) == "faster"


def test_few_samples_have_a_ratio_and_no_interval() -> None:
    assert paired_ratio([1.0] * 5, [2.0] * 5) == Ratio(2.0, None)
    assert unpaired_ratio([1.0] * 9, [2.0] * 5) == Ratio(2.0, None)


def test_pairs_need_two_sides_of_the_same_length() -> None:
    with pytest.raises(ValueError, match="shorter"):
        paired_ratio([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="at least one value"):
        paired_ratio([], [])


def test_the_same_seed_gives_the_same_interval() -> None:
    a, b = lognormal(32, 7), lognormal(32, 8)
    assert paired_ratio(a, b, seed=3) == paired_ratio(a, b, seed=3)
    assert paired_ratio(a, b, seed=3) != paired_ratio(a, b, seed=4)


# The interval, against other ways to work it out


@pytest.mark.parametrize("count", [9, 10, 31, 100])
def test_the_interval_is_that_of_resampling_every_value(count: int) -> None:
    a, b = lognormal(count, 11), lognormal(count, 12, around=1.1)
    rng = np.random.default_rng(0)
    logs = np.log(np.array(b) / np.array(a))
    medians = np.median(logs[rng.integers(0, count, (10_000, count))], axis=1)
    low, high = np.exp(np.quantile(medians, [0.025, 0.975]))
    found = paired_ratio(a, b)
    # Medians of few values lie on few places: the ends may be neighbours of the exact ones.
    step = np.diff(np.sort(logs)).max() if count < 30 else 0.006
    assert found.ci95 == pytest.approx((low, high), abs=step)


@pytest.mark.parametrize(("counts"), [(40, 40), (200, 35)])
def test_the_unpaired_interval_is_that_of_resampling_both_sides(counts: tuple[int, int]) -> None:
    a, b = lognormal(counts[0], 13), lognormal(counts[1], 14, around=1.2)
    rng = np.random.default_rng(0)

    def medians(times: list[float]) -> np.ndarray:
        picked = rng.integers(0, len(times), (10_000, len(times)))
        resampled: np.ndarray = np.median(np.array(times)[picked], axis=1)
        return resampled

    low, high = np.quantile(medians(b) / medians(a), [0.025, 0.975])
    assert unpaired_ratio(a, b).ci95 == pytest.approx((low, high), abs=0.004)


def test_the_interval_of_many_pairs_is_nearly_that_of_order_statistics() -> None:
    # The bootstrap of a median tends to the order-statistic interval, which assumes nothing.
    a, b = [1.0] * 500, lognormal(500, 15)
    assert paired_ratio(a, b).ci95 == pytest.approx(median_interval(sorted(b)), abs=0.002)


def test_the_true_ratio_is_covered_about_as_often_as_promised() -> None:
    held = 0
    for seed in range(100):
        found = paired_ratio(lognormal(40, 2 * seed), lognormal(40, 2 * seed + 1, around=1.03))
        assert found.ci95 is not None
        held += found.ci95[0] <= 1.03 <= found.ci95[1]
    # 95 of 100 expected; four standard deviations around it.
    assert 86 <= held <= 100


def test_without_a_difference_a_verdict_of_one_is_rare_and_with_one_it_is_found() -> None:
    def verdicts(factor: float) -> list[str]:
        return [
            judge(
                paired_ratio(
                    lognormal(60, 9000 + seed, sigma=0.02),
                    lognormal(60, 5000 + seed, around=factor, sigma=0.02),
                )
            )
            for seed in range(60)
        ]

    assert sum(verdict in ("slower", "faster") for verdict in verdicts(1.0)) == 0
    assert verdicts(1.05).count("slower") >= 57
    assert verdicts(0.95).count("faster") >= 57
