"""The script that says whether the numbers of rescli bench are true: what holds and what misses, on paper."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from rescli.bench.clock import HostClock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

FILE = Path(__file__).parents[2] / "benchmarks" / "truth.py"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("truth", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "truth", module)
    spec.loader.exec_module(module)
    return module


def outcome(script: ModuleType, monkeypatch: pytest.MonkeyPatch, verdicts: list[str]) -> Any:  # noqa: ANN401
    """Count false verdicts among these."""

    class One:
        def __init__(self, verdict: str) -> None:
            self.verdict, self.ratio = verdict, 1.05

    monkeypatch.setattr(script, "verdicts", lambda *_: [One(verdict) for verdict in verdicts])
    return script.false_verdicts(len(verdicts), 1.0), script.detections(0.05, 0.95, len(verdicts), 1.0)


def test_one_false_verdict_of_a_hundred_is_allowed_and_two_are_not(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    false, _ = outcome(script, monkeypatch, ["same"] * 90 + ["inconclusive"] * 9 + ["faster"])
    assert (false.held, false.found) == (True, "1 (1.0%); 90 same, 9 inconclusive")
    false, _ = outcome(script, monkeypatch, ["same"] * 98 + ["faster", "slower"])
    assert not false.held


def test_a_pair_without_a_verdict_is_neither_false_nor_found(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "compared", lambda *_: None)
    false, found = script.false_verdicts(2, 1.0), script.detections(0.05, 0.95, 2, 1.0)
    assert (false.held, false.found) == (True, "0 (0.0%); 0 same, 2 inconclusive")
    assert (found.held, found.found) == (False, "0 (0%); median ratio nan")
    assert script.known_waits(1.0).found == "no time for a sample"


def test_a_slow_down_must_be_found_95_times_of_100(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, found = outcome(script, monkeypatch, ["slower"] * 95 + ["inconclusive"] * 5)
    assert (found.held, found.found) == (True, "95 (95%); median ratio 1.0500")
    _, found = outcome(script, monkeypatch, ["slower"] * 94 + ["inconclusive"] * 5 + ["faster"])
    assert not found.held


def test_a_slowed_module_takes_longer_by_its_share_and_gives_the_same(script: ModuleType) -> None:
    layer, x = nn.Linear(2, 2), torch.ones(1, 2)
    assert torch.equal(script.Slowed(layer, 0.05)(x), layer(x))


def test_pytorchs_loop_marks_what_it_times_and_not_its_warm_up(script: ModuleType) -> None:
    calls: list[int] = []

    class Counts(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            calls.append(1)
            return x

    clock = HostClock()
    exercise = script.TorchTimer(Counts(), torch.ones(1))
    seen: list[int] = []
    exercise.run(7, lambda: seen.append(len(calls)))
    before_warm_up, after_warm_up, before, after = seen
    assert (before_warm_up, before - after_warm_up, after - before) == (0, 0, 7)
    clock.begin()
    exercise.run(3, clock.mark)
    assert len(clock.end().intervals_s) == exercise.period


@pytest.mark.parametrize(("held", "code", "word"), [(True, 0, "ok"), (False, 1, "MISSED")])
def test_the_exit_code_says_whether_a_bar_was_missed(
    script: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    held: bool,
    code: int,
    word: str,
) -> None:
    def findings(_options: object) -> Iterator[object]:
        yield script.Finding("one", "at most 1%", "none", True)
        yield script.Finding("two", "at least 95%", "94", held)

    monkeypatch.setattr(script, "findings_of", findings)
    monkeypatch.setattr(script, "verdicts", lambda *_: [])
    monkeypatch.setattr(sys, "argv", ["truth.py", "--json", str(tmp_path / "out.json")])
    assert script.main() == code
    out, err = capsys.readouterr()
    assert out.splitlines()[1].split() == [word, "two", "at", "least", "95%", "94"]
    # A hundred pairs for each of three shares.
    assert err == "this takes at most 11 minutes\n"
    assert [one["held"] for one in json.loads((tmp_path / "out.json").read_text())] == [True, held]
