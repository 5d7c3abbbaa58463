from __future__ import annotations

import math
import random
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescli.bench.stats import interval_rank, median_interval, quantile, summarise

times = st.lists(st.floats(min_value=1e-9, max_value=1e3), min_size=1, max_size=200)


def test_the_ranks_are_those_of_the_published_tables() -> None:
    # Order statistics for a 95% interval of the median, e.g. Conover, Practical Nonparametric Statistics.
    known = {5: 0, 6: 1, 8: 1, 9: 2, 10: 2, 12: 3, 15: 4, 20: 6, 25: 8, 30: 10, 40: 14, 50: 18, 100: 40}
    assert {count: interval_rank(count) for count in known} == known


@given(st.integers(min_value=6, max_value=400))
def test_the_interval_covers_95_percent_and_the_next_narrower_one_does_not(count: int) -> None:
    def coverage(rank: int) -> float:
        tails: int = 2 * sum(math.comb(count, i) for i in range(rank))
        return 1 - tails / 2.0**count

    rank = interval_rank(count)
    assert coverage(rank) >= 0.95
    assert coverage(rank + 1) < 0.95


def test_the_interval_holds_the_true_median_about_as_often_as_it_says() -> None:
    rng = random.Random(3)
    held = 0
    for _ in range(1000):
        low, high = median_interval(sorted(rng.expovariate(1.0) for _ in range(30))) or (0.0, 0.0)
        held += low <= math.log(2) <= high
    # 30 samples give 95.7%; four standard deviations around it.
    assert 930 <= held <= 982


def test_five_samples_have_no_interval() -> None:
    assert median_interval([1.0, 2.0, 3.0, 4.0, 5.0]) is None


@given(times, st.floats(min_value=0, max_value=1))
def test_a_quantile_is_numpys(values: list[float], share: float) -> None:
    assert quantile(sorted(values), share) == pytest.approx(float(np.quantile(values, share)), rel=1e-9)


def test_a_quantile_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="a quantile needs at least one value"):
        quantile([], 0.5)


@given(times)
def test_the_summary_does_not_depend_on_the_order_and_its_numbers_are_ordered(values: list[float]) -> None:
    found = summarise(values)
    assert found == summarise(list(reversed(values)))
    assert found.median_s == pytest.approx(statistics.median(values))
    assert found.min_s == min(values)
    if found.ci95_s is not None:
        assert found.min_s <= found.ci95_s[0] <= found.median_s <= found.ci95_s[1] <= max(values)


@pytest.mark.parametrize(("count", "given_out"), [(59, False), (60, True)])
def test_the_95th_percentile_is_given_from_sixty_samples_on(count: int, given_out: bool) -> None:
    assert (summarise([float(i) for i in range(count)]).p95_s is not None) is given_out


def test_an_outlier_is_kept() -> None:
    found = summarise([1.0] * 59 + [1000.0])
    assert found.p95_s == 1.0
    assert summarise([1.0] * 50 + [1000.0] * 10).p95_s == 1000.0
    assert found.median_s == 1.0
