"""Benchmarks with comparisons, as text, CSV and Markdown."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rescli.bench.result import BenchResult, BenchWarning, Comparison
from rescli.render.bench_csv import bench_csv
from rescli.render.bench_markdown import bench_markdown
from rescli.render.bench_text import bench_text
from tests.rescli.render.test_bench_text import ENVIRONMENT, FOUR, nothing, row

if TYPE_CHECKING:
    from collections.abc import Callable

    from rescli.bench.result import PassName, PassResult, Verdict


def comparison(
    name: PassName, ratio: float, half: float, verdict: Verdict, *, variant: str = "plain"
) -> Comparison:
    return Comparison(
        a="specs/basic.py:block",
        b=variant if variant == "plain" else "specs/other.py:block",
        kind="versus",
        name="block",
        device="cpu",
        dtype="float32",
        pass_name=name,
        batch_size=8,
        ratio=ratio,
        ci95=(ratio - half, ratio + half),
        verdict=verdict,
        margin=0.01,
        paired=True,
        pairs=60,
        variant=variant,
    )


def plain(of: PassResult) -> PassResult:
    return replace(of, variant="plain", warnings=())


BLOCK = (
    replace(row("inference", 23.4e-6), peak_memory_bytes=4096, retained_bytes=0, flops_share=0.125),
    replace(row("step", 123e-6), peak_memory_bytes=1 << 20, retained_bytes=2048, flops_share=0.5),
)
COMPARED = BenchResult(
    ENVIRONMENT,
    (*BLOCK, plain(row("inference", 20.1e-6)), plain(row("step", 122e-6))),
    (
        comparison("inference", 0.859, 0.0035, "faster"),
        comparison("step", 0.992, 0.012, "inconclusive"),
    ),
)
AGAINST_A_FILE = BenchResult(
    ENVIRONMENT,
    BLOCK,
    (
        replace(
            comparison("inference", 1.083, 0.004, "slower", variant="block"),
            a="base.json",
            b="specs/basic.py:block",
            kind="baseline",
            margin=0.05,
            paired=False,
            pairs=None,
        ),
    ),
)
NO_PLAIN = replace(
    COMPARED,
    results=(
        *BLOCK,
        *(
            replace(
                nothing(
                    name, BenchWarning("no-plain", {"error": "RuntimeError", "message": "mat1 and | mat2"})
                ),
                variant="plain",
            )
            for name in ("inference", "step")
        ),
    ),
    comparisons=(),
)
ALL = {"compared": COMPARED, "baseline": AGAINST_A_FILE, "no_plain": NO_PLAIN, "four": FOUR}


@pytest.mark.parametrize("name", ALL)
def test_text_has_the_ratios_beside_the_medians(name: str, golden: Callable[[str, str], None]) -> None:
    text = bench_text(ALL[name])
    assert max(map(len, text.splitlines())) <= 80
    golden(f"bench_{name}.txt", text)


def test_a_compared_table_has_an_ascii_twin() -> None:
    text = bench_text(COMPARED, ascii_only=True)
    assert text.isascii()
    assert "x block" in text
    assert "0.859 (0.856-0.862) faster" in text


@pytest.mark.parametrize("name", ALL)
def test_markdown_is_what_one_would_paste(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"bench_{name}.md", bench_markdown(ALL[name]))


@pytest.mark.parametrize("name", ALL)
def test_every_line_of_a_markdown_table_has_as_many_cells(name: str) -> None:
    lines = [line for line in bench_markdown(ALL[name]).splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in lines}) == 1


def test_csv_has_a_line_for_each_row_with_the_numbers_as_they_are() -> None:
    records = list(csv.DictReader(io.StringIO(bench_csv(COMPARED))))
    assert [(each["variant"], each["pass"]) for each in records] == [
        ("block", "inference"),
        ("plain", "inference"),
        ("block", "step"),
        ("plain", "step"),
    ]
    first, compared = records[0], records[1]
    statistics = COMPARED.results[0].statistics
    assert statistics is not None
    assert float(first["median_s"]) == statistics.median_s
    assert (first["compiled"], first["p95_s"] != "", first["compile_s"]) == ("false", True, "")
    assert (first["versus_ratio"], first["versus_verdict"]) == ("", "")
    assert (compared["versus_ratio"], compared["versus_verdict"]) == ("0.859", "faster")


def test_csv_of_nothing_is_a_header() -> None:
    assert bench_csv(BenchResult(ENVIRONMENT, ())).startswith("name,target,variant,")


def test_csv_leaves_empty_what_is_unknown_and_names_the_warnings() -> None:
    record = list(csv.DictReader(io.StringIO(bench_csv(NO_PLAIN))))[1]
    assert (record["median_s"], record["samples"], record["warnings"]) == ("", "0", "no-plain")
    unlimited = replace(COMPARED, results=(replace(BLOCK[0], flops_per_s=float("inf")),))
    assert next(csv.DictReader(io.StringIO(bench_csv(unlimited))))["flops_per_s"] == ""


# Several devices

SPREAD = replace(row("step", 60e-6), parallel="ddp", workers=2)
SCALED = BenchResult(
    ENVIRONMENT,
    (SPREAD, replace(row("step", 108e-6), variant="single", warnings=())),
    (replace(comparison("step", 1.8, 0.02, "slower", variant="single"), kind="scaling", workers=2),),
)


def test_the_speed_up_stands_beside_what_is_spread_over_several() -> None:
    lines = [" ".join(line.split()) for line in bench_text(SCALED).splitlines()]
    assert any("DDP in 2 processes on cpu, float32, batch 8" in line for line in lines)
    assert " 1.800 (1.780–1.820), 90%" in next(line for line in lines if line.startswith("step block"))
    assert "1.800" not in next(line for line in lines if line.startswith("step single"))
    markdown = bench_markdown(SCALED)
    assert "| speed-up, efficiency |" in markdown
    assert "| 1.800 (1.780–1.820), 90% |" in markdown


def test_csv_has_the_speed_up_and_the_efficiency() -> None:
    spread, single = csv.DictReader(io.StringIO(bench_csv(SCALED)))
    assert (spread["workers"], spread["speed_up"], spread["efficiency"]) == ("2", "1.8", "0.9")
    assert (single["workers"], single["speed_up"], single["efficiency"]) == ("1", "", "")
