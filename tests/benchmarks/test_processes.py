"""Commands beside each other: what a row of the table is, and what makes it fail."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

from benchmarks import processes, show, startup
from benchmarks.processes import BASE, Case, Row, Sample, line, measure, ratio, rows
from benchmarks.show import growth

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

BUSY = "import time\nuntil = time.perf_counter() + {}\nwhile time.perf_counter() < until: pass"


def samples(*wall_s: float, peak_mb: float = 100.0, problem: str = "") -> list[Sample]:
    return [Sample(each, each, peak_mb, problem) for each in wall_s]


def row(case: Case, own: list[Sample]) -> Row:
    found = rows([case], {BASE: samples(1.0, 1.0, 1.0), case.name: own}, seed=0)
    return found[0]


def test_a_slower_command_has_a_larger_ratio_and_what_it_says_is_kept(tmp_path: Path) -> None:
    cases = [
        Case(BASE, ("-c", BUSY.format(0.05))),
        Case("slow", ("-c", BUSY.format(0.2)), bar=1.1),
        Case("broken", ("-c", "import sys; sys.exit('no such thing')"), bar=9.0),
        Case("refusing", ("-c", "import sys; sys.exit(3)"), exits=3, bar=9.0),
    ]
    found = measure(cases, 3, 0, tmp_path)
    assert [len(found[case.name]) for case in cases] == [3, 3, 1, 3]
    base, slow, broken, refusing = rows(cases, found, 0)
    assert base.ratio == 1.0
    assert slow.low is not None
    assert slow.low > 1.5
    assert broken.problem == "exit code 1: no such thing"
    assert [each.fails for each in (base, slow, broken, refusing)] == [False, True, True, False]


def test_a_bar_is_missed_if_the_whole_interval_lies_beyond_it() -> None:
    assert row(Case("a", (), bar=1.5), samples(2.0, 2.0, 2.0)).fails
    assert not row(Case("a", (), bar=1.5), samples(1.4, 2.0, 2.0)).fails
    assert row(Case("a", (), memory_bar_mb=10.0), samples(1.0, 1.0, 1.0, peak_mb=111.0)).fails
    assert not row(Case("a", (), memory_bar_mb=12.0), samples(1.0, 1.0, 1.0, peak_mb=111.0)).fails
    assert not row(Case("a", ()), samples(9.0, 9.0, 9.0, problem="exit code 1: missing")).fails


def test_ratios_are_paired() -> None:
    assert ratio([2.0, 4.0, 8.0], [1.0, 2.0, 4.0], random.Random(0)) == (2.0, 2.0, 2.0)


def test_a_line_says_whether_it_is_good() -> None:
    good = line(row(Case("good", (), bar=2.0), samples(1.0, 1.0, 1.0)), 6)
    assert good == "good      1000  1.000  1.000-1.000      2  1.000      0.0        ok"
    assert line(row(Case("bad", (), bar=0.5), samples(1.0, 1.0, 1.0)), 6).endswith("FAIL")
    assert (
        line(row(Case("odd", (), bar=0.5), samples(1.0, problem="exit code 1: x")), 4)
        == "odd  exit code 1: x"
    )


def test_a_command_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_LIMIT_S", 0.2)
    found = processes.run(Case("hangs", ("-c", "import time; time.sleep(60)")), tmp_path)
    assert found.problem == "exit code -9: no message"


def test_growth_is_what_comes_on_top_of_importing_torch() -> None:
    found = {
        BASE: samples(1.0, 1.0),
        "show flat 100": samples(1.5, 1.5),
        "show flat 1,000": samples(6.0, 6.0),
        "lint flat 100": samples(1.5, 1.5),
        "lint flat 1,000": samples(6.0, problem="exit code 70: x"),
    }
    assert growth(found, "show", 1_000) == 10.0
    assert growth(found, "lint", 1_000) is None


def test_the_blocks_are_as_large_as_the_table_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in show.SPECS.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    spec: dict[str, object] = {}
    exec(show.built("flat", "100, 30", 4), spec)  # noqa: S102 - as the script has Python do
    names = [type(each).__name__ for each in spec["block"]]  # type: ignore[attr-defined]
    assert [names.count(name) for name in ("Linear", "Record", "Apply")] == [100, 30, 30]
    exec(show.built("huge", "", 16_384, large=True), spec)  # noqa: S102 - likewise
    assert sum(each.numel() for each in spec["block"].parameters()) > 100e9  # type: ignore[attr-defined]


def test_the_scripts_print_a_table_or_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = [Case(BASE, ("-c", BUSY.format(0.05))), Case("slow", ("-c", BUSY.format(0.3)), bar=1.0)]
    assert startup.main(["--rounds", "2"], fake) == 1
    assert "FAIL" in capsys.readouterr().out
    assert startup.main(["--rounds", "1", "--json"], fake[:1]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["ratio"] == 1.0

    def measured(cases: list[Case], *_: object) -> dict[str, list[Sample]]:
        return {case.name: samples(1.0 + 0.1 * ("flat" in case.name)) for case in cases}

    monkeypatch.setattr(show, "measure", measured)
    assert show.main(["--layers", "100"]) == 0
    assert "show: ten times the layers take 1.0 times the extra time, bar 12  ok" in capsys.readouterr().out
