"""Numbers as people read them: times, sizes, counts and floating point operations."""

from __future__ import annotations

_TIME_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_FLOP_UNITS = ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP")


def format_seconds(seconds: float, *, ascii_only: bool = False) -> str:
    """Write a time with three significant digits, in the unit that suits it.

    Args:
        seconds: The time in seconds; negative for a difference.
        ascii_only: Whether microseconds must be written ``us``.

    Example:
        >>> format_seconds(0.0123456)
        '12.3 ms'
        >>> format_seconds(75.0)
        '75.0 s'
    """
    size = abs(seconds)
    if size == 0:
        return "0 s"
    for scale, unit in _TIME_UNITS:
        # 0.9996 ms is written 1.00 ms, not 1000 µs: the rounded number decides.
        if float(f"{size / scale:.3g}") >= 1 or unit == "ns":
            name = "us" if ascii_only and unit == "µs" else unit
            return f"{_three_digits(seconds / scale)} {name}"
    raise AssertionError  # pragma: no cover - the last unit always matches


def format_bytes(count: int) -> str:
    """Write a number of bytes in binary units, exact below 1 KiB.

    Args:
        count: The number of bytes.

    Example:
        >>> format_bytes(2_048)
        '2.00 KiB'
        >>> format_bytes(100)
        '100 B'
    """
    number, unit = _scaled(count, 1024, _BYTE_UNITS)
    return f"{count:,} B" if unit == "B" else f"{_three_digits(number)} {unit}"


def format_count(count: int) -> str:
    """Write a whole number with its thousands separated.

    Args:
        count: The number.

    Example:
        >>> format_count(11_689_512)
        '11,689,512'
    """
    return f"{count:,}"


def format_flops(count: float) -> str:
    """Write a number of floating point operations; with ``/s`` behind it, a rate.

    Args:
        count: How many operations, or how many a second.

    Example:
        >>> format_flops(65_536)
        '65.5 kFLOP'
        >>> format_flops(3_628_146_688)
        '3.63 GFLOP'
    """
    number, unit = _scaled(count, 1000, _FLOP_UNITS)
    return f"{number:.0f} {unit}" if unit == "FLOP" else f"{_three_digits(number)} {unit}"


def _scaled(count: float, base: int, units: tuple[str, ...]) -> tuple[float, str]:
    """Divide by the base until the number, as it will be written, is below the base."""
    number = float(count)
    for unit in units[:-1]:
        if abs(number) < base - 0.5:
            return number, unit
        number /= base
    return number, units[-1]


def _three_digits(number: float) -> str:
    """Write at least three significant digits, without an exponent."""
    size = abs(float(f"{number:.3g}"))
    decimals = 2 if size < 10 else 1 if size < 100 else 0
    return f"{number:,.{decimals}f}"
