"""How cost grows: blocks compute what their layers and skips say, and a long block that is slow fails."""

from __future__ import annotations

import json
import sys

import pytest
import torch
from torch import nn

from benchmarks import growth
from torchresidual import Record, ResidualSequential


def test_ten_layers_get_three_skips_and_keep_their_order() -> None:
    plain = growth.layers(20)
    marked = growth.with_skips(plain)
    assert sum(isinstance(module, Record) for module in marked) == 6
    assert [module for module in marked if isinstance(module, nn.Linear | nn.Tanh)] == plain
    block = ResidualSequential(*marked)
    assert len(block.edges()) == 6
    x = torch.randn(2, 8)
    y = x + nn.Sequential(*plain[:2])(x)
    y = y + nn.Sequential(*plain[2:5])(y)
    y = y + nn.Sequential(*plain[5:8])(y)
    torch.testing.assert_close(ResidualSequential(*growth.with_skips(plain[:10]))(x), plain[9](plain[8](y)))


@pytest.mark.parametrize(
    ("layers", "seconds", "fails"), [(10_000, 3.0, True), (10_000, 1.0, False), (10, 3.0, False)]
)
def test_a_long_block_that_takes_more_than_twice_as_long_fails(
    layers: int, seconds: float, fails: bool
) -> None:
    row = growth.Row(layers, 3, 10.0, seconds, 1.0, 2.0, 1.0)
    assert row.ready == (seconds + 2.0) / 2.0
    assert row.from_scratch == (10.0 + seconds + 2.0) / 12.0
    assert row.fails == fails


def test_the_table_is_also_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    threads, limit = torch.get_num_threads(), sys.getrecursionlimit()
    options = ["growth.py", "--layers", "20", "--depth", "3", "--repeats", "1"]
    try:
        monkeypatch.setattr(sys, "argv", [*options, "--json"])
        assert growth.main() == 0
        found = json.loads(capsys.readouterr().out)
        monkeypatch.setattr(sys, "argv", options)
        assert growth.main() == 0
    finally:
        torch.set_num_threads(threads)
    assert found["flat"][0]["skips"] == 6
    assert found["deep"][0][0] == 3
    assert capsys.readouterr().out.splitlines()[1].split()[:2] == ["20", "6"]
    assert sys.getrecursionlimit() == limit
