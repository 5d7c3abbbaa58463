"""The examples run as scripts, and load as specs."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from rescli.spec.prepare import prepare
from rescli.spec.request import Request

EXAMPLES = Path(__file__).parents[2] / "examples"
BLOCKS = {
    "basic_usage.py": ["skip", "projected", "mixed"],
    "advanced_usage.py": ["downsampling", "pre_norm", "nested"],
    "lstm_residual.py": ["plain", "bidirectional", "stateful"],
}


def test_every_example_is_listed_here() -> None:
    assert sorted(path.name for path in EXAMPLES.glob("*.py")) == sorted(BLOCKS)


@pytest.mark.parametrize("name", BLOCKS)
def test_an_example_loads_as_a_spec(name: str) -> None:
    blocks = prepare(str(EXAMPLES / name), Request())
    assert [block.name for block in blocks] == BLOCKS[name]


def test_the_basic_example_learns_to_let_the_input_through(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "basic_usage.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "projected: (32, 64) -> (32, 128)"
    assert lines[2] == "projection: Linear(in_features=64, out_features=128, bias=True)"
    learned = float(lines[3].split("value=")[1].split(",")[0])
    assert 0.6 < learned < 1.0  # from 0.3


def test_the_advanced_example_is_right_in_eight_threads(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "advanced_usage.py"), run_name="__main__")
    assert capsys.readouterr().out.splitlines() == [
        "downsampling: (2, 128, 8, 8) from 15x15",
        "a ReZero layer starts as the identity: True",
        "skip 'inner': 2.0 -> 2.2, add",
        "skip 'outer': 0 -> 2.3, add",
        "8 threads, 8 right: True",
    ]


def test_the_recurrent_example_hands_hidden_states_on(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "lstm_residual.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "bidirectional: (4, 10, 32) -> (4, 10, 64)"
    assert lines[2:] == ["two halves give the whole: True", "packed sequences go through: True"]
