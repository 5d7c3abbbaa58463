from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rescli.graph.held import Hold, peak_bytes


def holds() -> st.SearchStrategy[list[Hold]]:
    """Recorded tensors of a few memories, anywhere in thirty rows; those of one memory have one size."""
    ends = st.tuples(st.integers(0, 29), st.integers(0, 29)).filter(lambda pair: pair[0] < pair[1])
    made = st.builds(
        lambda pair, memory: Hold(pair[0], pair[1], 10 * memory + 1, memory), ends, st.integers(0, 6)
    )
    return st.lists(made, max_size=12)


def counted_row_by_row(held: list[Hold]) -> int:
    moments = (
        {hold.memory: hold.size_bytes for hold in held if hold.first <= row <= hold.last} for row in range(30)
    )
    return max((sum(sizes.values()) for sizes in moments), default=0)


@given(holds())
def test_the_peak_is_the_most_that_any_row_holds(held: list[Hold]) -> None:
    assert peak_bytes(held) == counted_row_by_row(held)


def test_a_tensor_is_still_there_at_the_apply_that_reads_it() -> None:
    assert peak_bytes([Hold(0, 3, 100, 1), Hold(3, 5, 10, 2)]) == 110
    assert peak_bytes([Hold(0, 3, 100, 1), Hold(4, 5, 10, 2)]) == 100


def test_one_memory_counts_once_with_its_larger_view() -> None:
    assert peak_bytes([Hold(0, 4, 100, 1), Hold(1, 5, 40, 1)]) == 100


def test_without_skips_nothing_is_held() -> None:
    assert peak_bytes([]) == 0
