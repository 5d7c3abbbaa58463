from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rescli.bench.baseline import check_dtype, check_environment, compare_with_baseline, read_baseline
from rescli.bench.result import BenchResult, Gpu
from rescli.errors import FileError
from rescli.render.bench_json import bench_json
from tests.rescli.render.test_bench_text import ENVIRONMENT, row

if TYPE_CHECKING:
    from pathlib import Path

    from rescli.bench.result import PassResult

THEN = row("inference", 1e-3)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "base.json"
    saved = BenchResult(ENVIRONMENT, (THEN, replace(row("step", 3e-3), variant="plain")))
    path.write_text(bench_json(saved, with_samples=True))
    return path


def slowed(factor: float, of: PassResult = THEN) -> PassResult:
    return replace(of, samples_s=tuple(factor * sample for sample in of.samples_s))


def test_what_was_saved_is_read_to_the_last_digit(file: Path) -> None:
    found = read_baseline(file)
    assert found.rows[0].samples_s == THEN.samples_s
    assert found.rows[0].dtype == "float32"
    assert found.environment["cpu"] == "Example CPU @ 2.00GHz"
    check_environment(found, ENVIRONMENT)


@pytest.mark.parametrize(
    ("factor", "percent", "verdict"),
    [(1.0, 5, "same"), (1.2, 5, "slower"), (1.04, 5, "same"), (1.04, 2, "slower"), (0.8, 5, "faster")],
)
def test_a_regression_is_a_whole_interval_beyond_the_threshold(
    file: Path, factor: float, percent: float, verdict: str
) -> None:
    (found,) = compare_with_baseline(read_baseline(file), [slowed(factor)], percent / 100)
    assert (found.verdict, found.is_regression) == (verdict, verdict == "slower")
    assert found.ratio == pytest.approx(factor)
    assert (found.a, found.b, found.paired, found.pairs) == (str(file), "specs/basic.py:block", False, None)


def test_an_interval_that_reaches_below_the_threshold_is_no_regression(file: Path) -> None:
    # Half of the samples as before: the median may lie on either side.
    mixed = replace(THEN, samples_s=(*THEN.samples_s[:30], *(2 * sample for sample in THEN.samples_s[30:])))
    (found,) = compare_with_baseline(read_baseline(file), [mixed], 0.05)
    assert found.verdict == "inconclusive"
    assert not found.is_regression


@pytest.mark.parametrize(
    "other",
    [
        replace(THEN, batch_size=9),
        row("step", 1e-3),
        replace(THEN, device="cuda:0"),
        replace(THEN, autocast_dtype="bfloat16"),
        replace(THEN, compiled=True),
        replace(THEN, target="specs/basic.py:other"),
        replace(THEN, dtype="float64"),
        replace(THEN, samples_s=()),
    ],
)
def test_only_rows_of_the_same_thing_are_compared(file: Path, other: PassResult) -> None:
    assert list(compare_with_baseline(read_baseline(file), [other], 0.05)) == []


def test_a_row_of_another_type_is_compared_if_that_is_forced(file: Path) -> None:
    other = replace(slowed(2), dtype="float64")
    (found,) = compare_with_baseline(read_baseline(file), [other], 0.05, forced=True)
    assert found.is_regression


def test_all_that_differs_is_named(file: Path) -> None:
    here = replace(ENVIRONMENT, threads=7, torch="3.0", gpus=(Gpu(0, "A", 1), Gpu(1, "B", 1)))
    with pytest.raises(FileError) as caught:
        check_environment(read_baseline(file), here)
    assert caught.value.message == (
        f"--baseline {file} does not match this run: gpus was none and is A, B; torch was 2.13.0+cpu and is 3.0; "
        "threads was 2 and is 7"
    )


def test_what_may_differ_is_let_through(file: Path) -> None:
    here = replace(ENVIRONMENT, rescli="9", python="3.14", system="Other", cores=64, driver="1")
    check_environment(read_baseline(file), here)


def test_another_type_is_refused_and_a_new_target_is_not(file: Path) -> None:
    found = read_baseline(file)
    check_dtype(found, "specs/basic.py:block", "float32")
    check_dtype(found, "specs/basic.py:new", "float64")
    with pytest.raises(FileError, match=r"dtype of specs/basic.py:block was float32 and is float64"):
        check_dtype(found, "specs/basic.py:block", "float64")


@pytest.mark.parametrize("spoil", ["zero", "text", "missing"])
def test_samples_that_are_no_times_are_refused(file: Path, spoil: str) -> None:
    document = json.loads(file.read_text())
    samples = {"zero": [0.0], "text": ["fast"], "missing": None}[spoil]
    document["results"][0]["samples_s"] = samples
    file.write_text(json.dumps(document))
    with pytest.raises(FileError, match="is no saved benchmark"):
        read_baseline(file)
