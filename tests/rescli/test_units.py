"""Numbers as people read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescli.units import format_bytes, format_count, format_flops, format_seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (3.14e-9, "3.14 ns"),
        (4e-11, "0.04 ns"),
        (12.3456e-6, "12.3 µs"),
        (0.0009996, "1.00 ms"),
        (0.0123456, "12.3 ms"),
        (0.123456, "123 ms"),
        (1.0, "1.00 s"),
        (75.0, "75.0 s"),
        (5_000.0, "5,000 s"),
        (-0.002, "-2.00 ms"),
    ],
)
def test_times_take_the_unit_that_suits_them(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


def test_microseconds_have_an_ascii_twin() -> None:
    assert format_seconds(5e-6, ascii_only=True) == "5.00 us"


@given(st.floats(min_value=1e-9, max_value=1e4))
def test_a_time_read_back_is_within_three_digits(seconds: float) -> None:
    number, unit = format_seconds(seconds).replace(",", "").split()
    scale = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}[unit]
    assert float(number) * scale == pytest.approx(seconds, rel=5.1e-3)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1_023, "1,023 B"),
        (1_024, "1.00 KiB"),
        (2_048, "2.00 KiB"),
        (1_048_575, "1.00 MiB"),
        (31_457_280, "30.0 MiB"),
        (5 * 2**60, "5,120 PiB"),
    ],
)
def test_bytes_are_written_in_binary_units(count: int, text: str) -> None:
    assert format_bytes(count) == text


def test_counts_have_their_thousands_separated() -> None:
    assert format_count(11_689_512) == "11,689,512"


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 FLOP"),
        (999, "999 FLOP"),
        (65_536, "65.5 kFLOP"),
        (999_600, "1.00 MFLOP"),
        (3_628_146_688, "3.63 GFLOP"),
        (2.5e12, "2.50 TFLOP"),
        (7e21, "7,000 EFLOP"),
    ],
)
def test_operations_are_written_in_decimal_units(count: float, text: str) -> None:
    assert format_flops(count) == text
