from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rescli.bench.result import NO_TIME_TO_COUNT, BenchResult, BenchWarning, Environment, Gpu, PassResult
from rescli.bench.stats import summarise
from rescli.render.bench_text import bench_text, distribution

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rescli.bench.failure import Failure
    from rescli.bench.result import PassName

ENVIRONMENT = Environment(
    rescli="0.1.0",
    python="3.11.7",
    torch="2.13.0+cpu",
    system="Linux 6.1 x86_64",
    cpu="Example CPU @ 2.00GHz",
    cores=2,
    threads=2,
    interop_threads=2,
    gpus=(),
    cuda=None,
    driver=None,
)
DENORMAL = BenchWarning("denormal", {"count": 40, "where": "1.weight", "places": 2})


def row(
    name: PassName, around_s: float, *, count: int = 60, batch: int = 8, warnings: Sequence[BenchWarning] = ()
) -> PassResult:
    samples = tuple(around_s * (1 + 0.001 * (place % 7)) for place in range(count))
    found = summarise(samples)
    return PassResult(
        name="block",
        target="specs/basic.py:block",
        variant="block",
        device="cpu",
        parallel="none",
        dtype="float32",
        batch_size=batch,
        pass_name=name,
        samples_s=samples,
        iterations=40,
        statistics=found,
        throughput_per_s=batch / found.median_s,
        first_call_s=around_s * 9,
        flops=196_608,
        flops_per_s=196_608 / found.median_s,
        warnings=tuple(warnings),
    )


def nothing(name: PassName, warning: BenchWarning, failure: Failure | None = None) -> PassResult:
    return replace(
        row(name, 1.0),
        samples_s=(),
        iterations=0,
        statistics=None,
        throughput_per_s=None,
        first_call_s=None,
        flops_per_s=None,
        warnings=(warning,),
        failure=failure,
    )


FOUR = BenchResult(
    ENVIRONMENT,
    (
        row("inference", 23.4e-6, warnings=[DENORMAL]),
        row("forward", 31.2e-6, warnings=[DENORMAL]),
        row("backward", 91.7e-6, warnings=[DENORMAL]),
        row(
            "step",
            1.234e-3,
            count=3,
            warnings=[
                BenchWarning("too-few-samples", {"samples": 3, "max_time_s": 0.01, "enough_s": 0.027}),
                DENORMAL,
            ],
        ),
    ),
)
SWEEP = BenchResult(
    replace(ENVIRONMENT, gpus=(Gpu(0, "Example GPU", 80 * 2**30),)),
    (
        replace(row("step", 0.4, count=6, batch=1), device="cuda:0", peak_memory_bytes=3 * 2**20),
        replace(nothing("step", BenchWarning("out-of-memory", {})), device="cuda:0", batch_size=10**6),
    ),
)


def test_a_table_reads_well_at_80_columns(golden: Callable[[str, str], None]) -> None:
    golden("bench_80.txt", bench_text(FOUR))


def test_a_table_has_an_ascii_twin(golden: Callable[[str, str], None]) -> None:
    text = bench_text(FOUR, ascii_only=True)
    assert text.isascii()
    golden("bench_ascii.txt", text)


def test_the_least_important_columns_go_first_on_a_narrow_page(golden: Callable[[str, str], None]) -> None:
    text = bench_text(FOUR, width=48)
    assert "spread" not in text
    assert "FLOP/s" not in text
    assert "95% interval" in text
    golden("bench_48.txt", text)


def test_a_sweep_has_a_table_for_each_size_and_says_what_failed(golden: Callable[[str, str], None]) -> None:
    golden("bench_sweep.txt", bench_text(SWEEP))


@pytest.mark.parametrize("width", [48, 60, 80, 100])
def test_no_line_is_wider_than_the_page(width: int) -> None:
    assert max(map(len, bench_text(FOUR, width=width).splitlines())) <= width


def test_an_interrupted_run_says_so() -> None:
    assert "Interrupted: this is what was measured until then." in bench_text(replace(FOUR, interrupted=True))
    assert "Interrupted" not in bench_text(FOUR)


def test_a_run_without_rows_says_so() -> None:
    assert "Nothing was measured." in bench_text(BenchResult(ENVIRONMENT, (), interrupted=True))


def test_every_warning_has_a_way_out() -> None:
    text = " ".join(bench_text(FOUR).split())
    assert "! 40 values are denormal (in 1.weight and 1 more)" in text
    assert "Hint: torch.set_flush_denormal(True) in the spec rounds them to zero." in text
    # Only the passes that it holds for are named.
    assert "! step: only 3 samples in the time allowed, 10.0 ms for the target" in text
    assert text.count("Hint:") == text.count("! ") == 2


@pytest.mark.parametrize(
    ("reason", "hint"),
    [
        (
            "there is no formula for what 0 computes",
            "rescli show has what can be counted of the forward pass",
        ),
        (NO_TIME_TO_COUNT, "a longer --max-time"),
    ],
)
def test_why_operations_are_not_counted_is_said_with_what_helps(reason: str, hint: str) -> None:
    uncounted = BenchWarning("uncounted", {"reason": reason})
    text = bench_text(BenchResult(ENVIRONMENT, (row("step", 1e-3, warnings=[uncounted]),)))
    assert f"! FLOP/s are not known: {reason}. Hint: {hint}." in " ".join(text.split())


def test_a_failure_shows_the_first_line_of_its_reason() -> None:
    failed = BenchWarning("failed", {"error": "ValueError", "message": "expected 3 channels\nmore"})
    text = bench_text(BenchResult(ENVIRONMENT, (row("inference", 1e-3), nothing("backward", failed))))
    assert "! backward: could not be run: ValueError: expected 3 channels. Hint: " in " ".join(text.split())
    assert "more" not in text.replace("or more", "")


def test_colour_adds_nothing_but_escape_sequences() -> None:
    import re

    assert re.sub(r"\x1b\[\d*m", "", bench_text(FOUR, color=True)) == bench_text(FOUR)
    assert "\x1b" not in bench_text(FOUR)


# The distribution


def test_the_distribution_shows_two_modes_and_keeps_an_outlier() -> None:
    two_modes = [1.0] * 10 + [2.0] * 5
    assert distribution(two_modes) == "█      ▄"
    far = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 90.0]
    assert len(distribution(far)) == 8
    assert distribution(far)[-1] != " "


def test_the_distribution_of_equal_samples_is_one_bar() -> None:
    assert distribution([1.0] * 30) == "█       "


def test_one_sample_has_no_distribution() -> None:
    assert distribution([1.0]) == ""
