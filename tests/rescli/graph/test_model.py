from __future__ import annotations

import dataclasses
import sys
from subprocess import run

import pytest

from rescli.graph import model
from rescli.graph.model import BlockGraph


def empty(flops: int) -> BlockGraph:
    return BlockGraph(
        name="block",
        target="a.py:block",
        type="Sequential",
        inputs=(),
        outputs=(),
        parameters=0,
        trainable_parameters=0,
        buffers=0,
        flops=flops,
        uncounted=(),
        peak_bytes_held=0,
        layers=(),
        edges=(),
        diagnostics=(),
    )


def test_multiply_adds_are_half_of_the_operations() -> None:
    assert empty(72_000).macs == 36_000


def test_facts_cannot_be_changed() -> None:
    facts = [kind for kind in vars(model).values() if dataclasses.is_dataclass(kind)]
    assert len(facts) == 10
    for kind in facts:
        assert isinstance(kind, type)
        assert kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
        assert "__slots__" in vars(kind)
    with pytest.raises(dataclasses.FrozenInstanceError):
        empty(0).flops = 1  # type: ignore[misc]


def test_facts_and_renderers_need_no_torch() -> None:
    code = (
        "import rescli.graph.model, rescli.graph.diagnose, rescli.render.show_text, rescli.render.show_json, sys;"
        "assert 'torch' not in sys.modules"
    )
    assert run([sys.executable, "-c", code], check=False).returncode == 0
