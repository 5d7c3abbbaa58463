from __future__ import annotations

import json
from typing import Any

import torch
from torch import nn

from rescli.graph.trace import trace
from rescli.render.show_json import render_show_json
from tests.rescli.graph import blocks
from torchresidual import Apply, LearnableAlpha, Record, ResidualSequential

# The names that the document promises; more may be added.
BLOCK = {
    *("name", "target", "type", "inputs", "outputs", "parameters", "trainable_parameters", "buffers"),
    *("flops", "macs", "uncounted", "layers", "edges", "diagnostics"),
}
LAYER = {
    *("index", "path", "kind", "type", "depth", "output_shape", "dtype", "parameters", "flops", "reused"),
}
EDGE = {
    *("record", "record_path", "apply_path", "operation", "alpha", "scale", "recorded_shape"),
    *("current_shape", "span", "bytes_held", "projection", "gates"),
}
INSERTED = {"path", "type", "detail", "parameters", "flops", "origin"}


def document_of(*cases: blocks.Case) -> Any:  # noqa: ANN401 - whatever JSON holds
    graphs = [trace(module, inputs, name="b", target="a.py:b", origin="spec") for module, inputs in cases]
    return json.loads(render_show_json(graphs))


def test_the_document_has_every_promised_name() -> None:
    document = document_of(blocks.projected(), blocks.highway())
    assert document["schema"] == "rescli.show/1"
    for block in document["blocks"]:
        assert block.keys() >= BLOCK
        assert all(layer.keys() >= LAYER for layer in block["layers"])
        assert all(edge.keys() >= EDGE for edge in block["edges"])
    projected, highway = document["blocks"]
    assert projected["edges"][0]["projection"].keys() >= INSERTED
    assert highway["edges"][0]["gates"].keys() >= INSERTED


def test_a_projection_is_written_with_its_price() -> None:
    block = ResidualSequential(Record(True, "r"), nn.Linear(64, 128), nn.ReLU(), Apply(record_name="r"))
    ((edge,),) = (each["edges"] for each in document_of((block, (torch.zeros(8, 64),)))["blocks"])
    assert edge["projection"] == {
        "path": "3.projection_layer",
        "type": "Linear",
        "detail": "64 -> 128",
        "parameters": 8320,
        "flops": 131072,
        "origin": "inserted",
        "sized": "construction",
        "layout": "known",
        "parts": [],
    }
    assert edge["recorded_shape"] == [8, 64]
    assert edge["alpha"] == {
        "value": 1.0,
        "learnable": False,
        "min": None,
        "max": None,
        "space": None,
        "shape": None,
        "saturation": None,
    }


def test_a_learned_alpha_is_written_with_its_bounds() -> None:
    block = ResidualSequential(Record(), nn.Linear(4, 4), Apply("gated", alpha=LearnableAlpha(0.3)))
    (alpha,) = (
        edge["alpha"]
        for each in document_of((block, (torch.zeros(2, 4),)))["blocks"]
        for edge in each["edges"]
    )
    assert alpha == {
        "value": 0.3,
        "learnable": True,
        "min": 0.0,
        "max": 1.0,
        "space": "linear",
        "shape": None,
        "saturation": 0.4,
    }


def test_what_is_unknown_is_null() -> None:
    infinite = torch.tensor(float("inf"))
    block = ResidualSequential(
        Record(), blocks.Layer(lambda x, _w: torch.fft.fft(x).real), Apply(scale=infinite), nn.Linear(3, 3)
    )
    (written,) = document_of((block, (torch.zeros(2, 8),)))["blocks"]
    assert written["layers"][1]["flops"] is None
    assert written["edges"][0]["scale"]["value"] is None
    assert written["layers"][3]["output_shape"] is None
    assert written["failure"]["path"] == "3"
    assert written["outputs"] == []


def test_the_document_is_ascii_whatever_the_names() -> None:
    module, inputs = blocks.plain_skip()
    text = render_show_json([trace(module, inputs, name="größe", target="ß.py:größe", origin="spec")])
    assert text.isascii()
    assert json.loads(text)["blocks"][0]["name"] == "größe"
