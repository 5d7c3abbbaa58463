from __future__ import annotations

import dataclasses
import importlib
import random
import re
import sys
from typing import TYPE_CHECKING

import pytest

from rescli.bench.result import BenchResult, Environment, PassName, PassResult
from rescli.bench.stats import summarise
from rescli.render.bench_plot import PLOT_FORMATS, bench_plot

if TYPE_CHECKING:
    from collections.abc import Sequence

HERE = Environment("0.1.0", "3.11.7", "2.13.0", "Linux", "Some CPU", 2, 1, 1, (), None, None)


def row(
    name: PassName = "step", variant: str = "block", median_s: float = 1e-4, batch: int = 8, slow: float = 1.1
) -> PassResult:
    """Make a row of forty samples within a few percent of the median, and one that is slower."""
    rng = random.Random(0)
    samples = (*(median_s * rng.uniform(0.98, 1.02) for _ in range(40)), median_s * slow)
    return PassResult(
        "b", "spec.py:b", variant, "cpu", "none", "float32", batch, name,
        samples_s=samples, statistics=summarise(samples),
    )  # fmt: skip


def drawn(rows: Sequence[PassResult]) -> str:
    """Draw rows, and give the words that stand in the picture."""
    pytest.importorskip("matplotlib", reason="the extra plot is not installed")
    picture = bench_plot(BenchResult(HERE, tuple(rows)), "svg").decode()
    return "\n".join(re.findall(r"<!-- (.*?) -->", picture))


@pytest.mark.parametrize(("file_format", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_each_format_begins_as_it_must_and_the_same_result_is_the_same_file(
    file_format: str, start: bytes
) -> None:
    pytest.importorskip("matplotlib", reason="the extra plot is not installed")
    result = BenchResult(HERE, (row(),))
    picture = bench_plot(result, file_format)
    assert picture.startswith(start)
    assert picture == bench_plot(result, file_format)
    assert picture != bench_plot(BenchResult(HERE, (row(median_s=2e-4),)), file_format)


def test_every_form_and_pass_has_a_row_with_its_median() -> None:
    words = drawn([row(), row("inference"), row(variant="plain", median_s=9e-5)])
    for said in ("spec.py:b", "cpu, float32, batch 8", "inference", "step", "step, plain"):
        assert said in words.splitlines()
    assert [words.count(median) for median in ("100.5 µs", "90.43 µs")] == [2, 1]
    assert "more" not in words


def test_samples_far_away_are_counted_at_the_edge_and_not_left_out() -> None:
    assert "1 more" in drawn([row(slow=20)]).splitlines()


def test_several_sizes_are_a_line_over_the_batch() -> None:
    rows = [
        row(batch=size, median_s=1e-5 * size, variant=form)
        for size in (1, 8, 32)
        for form in ("block", "plain")
    ]
    words = drawn(rows).splitlines()
    for said in (
        "items in the batch",
        "1",
        "8",
        "32",
        "step, block",
        "step, plain",
        "cpu, float32",
        "100 µs",
    ):
        assert said in words


def test_rows_without_samples_are_left_out_and_none_at_all_is_said() -> None:
    empty = dataclasses.replace(row("inference"), samples_s=(), statistics=None)
    assert "inference" not in drawn([empty, row()])
    assert drawn([empty]) == "Nothing was measured."


def test_each_target_has_a_panel_and_a_versus_stands_beside_its_block() -> None:
    other = dataclasses.replace(row(), target="other.py:c")
    wide = dataclasses.replace(row(variant="versus"), target="wide.py:w")
    words = drawn([row(), wide, other]).splitlines()
    assert words.count("time of a call, in medians of the block's pass") == 2
    assert "versus wide.py:w" in words


def test_what_can_be_drawn_is_known_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    module = importlib.import_module("rescli.render.bench_plot")
    assert module.PLOT_FORMATS == PLOT_FORMATS == ("png", "svg", "pdf")
    with pytest.raises(ImportError):
        bench_plot(BenchResult(HERE, ()), "png")
