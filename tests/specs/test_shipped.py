"""Each spec that ships with rescli: what goes in, what comes out, how many parameters, which skips."""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

from rescli.spec.prepare import PreparedBlock, Request, prepare
from rescli.spec.target import shipped_specs
from torchresidual import Apply, Record, ResidualSequential

if TYPE_CHECKING:
    from pathlib import Path

# name: block, origin of the input, input, output, parameters, operations of its Applies
EXPECTED = {
    "basic": ("block", "inferred", (8, 64), (8, 64), 64 * 64 + 64 + 128, ["add"]),
    "multiple_skips": (
        "block",
        "inferred",
        (8, 64),
        (8, 32),
        2 * (64 * 32 + 32) + 32 * 64 + 64 + 128,
        ["add"] * 2,
    ),
    "learnable_alpha": ("block", "inferred", (8, 64), (8, 64), 64 * 64 + 64 + 1, ["gated"]),
    "projection": ("block", "inferred", (8, 64), (8, 128), 2 * (64 * 128 + 128), ["add"]),
    "lstm": ("block", "spec", (4, 10, 32), (4, 10, 32), 2 * 4 * (2 * 32 * 32 + 2 * 32), ["add"]),
    "transformer": (
        "block",
        "inferred",
        (16, 8, 256),
        (16, 8, 256),
        4 * (256 * 256 + 256) + 2 * 512 + 256 * 1024 + 1024 + 1024 * 256 + 256,
        ["add"] * 2,
    ),
    "nested": ("outer_block", "inferred", (8, 64), (8, 64), 2 * (64 * 64 + 64), ["add"] * 2),
    "encoder": (
        "encoder",
        "spec",
        (4, 64, 100),
        (4, 192, 100),
        # conv1, conv2, norm, conv3, and the 1x1 convolution of the long skip
        (64 * 3 * 128 + 128) + (128 * 3 * 128 + 128) + 256 + (128 * 64 + 64) + (64 * 128 + 128),
        ["add", "concat"],
    ),
    "highway": ("block", "inferred", (8, 50), (8, 50), 3 * (50 * 50 + 50), ["highway"]),
    "concat": ("block", "inferred", (8, 32), (8, 64), 32 * 16 + 16 + 48 * 16 + 16, ["concat"] * 2),
    "resnet18": ("resnet18", "spec", (1, 3, 224, 224), (1, 1000), 11_689_512, ["add"] * 8),
    "resnet50": ("resnet50", "spec", (1, 3, 224, 224), (1, 1000), 25_557_032, ["add"] * 16),
    "mobilenet_v2": ("mobilenet_v2", "spec", (1, 3, 224, 224), (1, 1000), 3_504_872, ["add"] * 10),
    "unet": ("unet", "spec", (1, 3, 256, 256), (1, 1, 256, 256), 31_037_633, ["concat"] * 4),
    "gpt2_block": ("gpt2_block", "spec", (1, 1024, 768), (1, 1024, 768), 7_087_872, ["add"] * 2),
    "transformer_base_layer": (
        "transformer_base_layer",
        "spec",
        (1, 16, 512),
        (1, 16, 512),
        3_152_384,
        ["add"] * 2,
    ),
    "rezero_layer": ("rezero_layer", "spec", (1, 16, 512), (1, 16, 512), 3_150_337, ["add"] * 2),
}


def only_block(target: str, **request: object) -> PreparedBlock:
    (block,) = prepare(target, Request(**request))  # type: ignore[arg-type] # by keyword
    return block


def applies(block: nn.Module) -> list[Apply]:
    return [module for module in block.modules() if isinstance(module, Apply)]


def test_every_shipped_spec_is_expected_here() -> None:
    assert {spec.name for spec in shipped_specs()} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_shipped_spec_has_the_shapes_parameters_and_skips_of_its_architecture(name: str) -> None:
    variable, origin, taken, given, parameters, operations = EXPECTED[name]
    block = only_block(name)
    assert (block.name, block.target, block.origin) == (variable, f"shipped:{name}", origin)
    assert [tuple(tensor.shape) for tensor in block.inputs] == [taken]
    # Without data: a large network takes a second for real.
    empty = copy.deepcopy(block.module).to("meta")
    assert tuple(empty(*(tensor.to("meta") for tensor in block.inputs)).shape) == given
    assert sum(parameter.numel() for parameter in block.module.parameters()) == parameters
    assert [apply.operation for apply in applies(block.module)] == operations


@pytest.mark.parametrize("spec", shipped_specs(), ids=lambda spec: spec.name)
def test_a_shipped_spec_reads_as_a_file_of_its_own(spec: object) -> None:
    path: Path = spec.path  # type: ignore[attr-defined] # pytest gives parameters no type
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstring = ast.get_docstring(tree)
    assert docstring is not None
    # A line, and below it what is worth knowing.
    assert len(docstring.split("\n\n")) >= 2
    # A module of the spec's own is an exception, which the text explains.
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    assert [name for name in classes if name not in docstring] == []


def test_the_encoder_keeps_any_length() -> None:
    encoder = only_block("encoder").module
    assert tuple(encoder(torch.zeros(4, 64, 37)).shape) == (4, 192, 37)


def test_the_basic_block_adds_what_it_recorded() -> None:
    block = only_block("basic")
    (x,) = block.inputs
    _, linear, activation, norm, _ = block.module.children()
    assert torch.allclose(block.module(x), norm(activation(linear(x))) + x)


def test_resnet18_projects_three_skips_with_a_convolution_and_a_norm_of_its_own() -> None:
    projections = [apply.projection_layer for apply in applies(only_block("resnet18").module)]
    given = [projection for projection in projections if projection is not None]
    assert [index for index, projection in enumerate(projections) if projection is not None] == [2, 4, 6]
    assert sum(parameter.numel() for projection in given for parameter in projection.parameters()) == 173_824
    for projection in given:
        convolution, norm = projection.children()
        assert isinstance(convolution, nn.Conv2d)
        assert (convolution.kernel_size, convolution.stride, convolution.bias) == ((1, 1), (2, 2), None)
        assert isinstance(norm, nn.BatchNorm2d)


def test_a_block_of_resnet18_computes_what_its_plain_forward_would() -> None:
    block = only_block(
        "resnet18:basic_block", settings={"channels": 4, "width": 8, "stride": 2}
    ).module.eval()
    x = torch.randn(2, 4, 9, 9, generator=torch.Generator().manual_seed(0))
    _, conv1, norm1, _, conv2, norm2, apply, _ = block.children()
    assert isinstance(apply, Apply)
    assert apply.projection_layer is not None
    skip = apply.projection_layer(x)
    expected = torch.relu(norm2(conv2(torch.relu(norm1(conv1(x))))) + skip)
    assert torch.allclose(block(x), expected, atol=1e-6)


def test_resnet18_takes_arguments() -> None:
    block = only_block("resnet18", settings={"num_classes": 10, "in_channels": 1, "width": 8}, batch_size=2)
    assert tuple(block.module(torch.zeros(2, 1, 64, 64)).shape) == (2, 10)
    assert len([m for m in block.module.modules() if isinstance(m, Record)]) == 8
    assert tuple(block.inputs[0].shape) == (2, 3, 224, 224)


def test_a_spec_without_its_skip_would_be_noticed() -> None:
    block = only_block("basic").module
    assert isinstance(block, ResidualSequential)
    del block[4]
    assert [apply.operation for apply in applies(block)] != EXPECTED["basic"][5]
