"""The published networks: their figures by ``rescli show``, their outputs against plain PyTorch."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from rescli.cli.app import run
from rescli.spec.prepare import Request, prepare
from rescli.spec.target import shipped_specs
from tests.specs import references
from torchresidual import Apply

if TYPE_CHECKING:
    from tests.specs.conftest import Document, Shown

PICTURE = (1, 3, 224, 224)
TEXT = (1, 1024, 768)
SENTENCE = (1, 16, 512)


class Figures(NamedTuple):
    """What a network is known by."""

    input: tuple[int, ...]
    parameters: int
    flops: int
    skips: int
    operation: str
    projected: int = 0
    projection_parameters: int = 0


# What follows `rescli show`: the figures as published, or counted by torch.utils.flop_counter on meta.
FIGURES = {
    "resnet18": Figures(PICTURE, 11_689_512, 3_628_146_688, 8, "add", 3, 173_824),
    "resnet50": Figures(PICTURE, 25_557_032, 8_178_368_512, 16, "add", 4, 2_776_576),
    "resnet50 --set depth=101": Figures(PICTURE, 44_549_160, 15_602_810_880, 33, "add", 4, 2_776_576),
    "resnet50 --set depth=152": Figures(PICTURE, 60_192_808, 23_027_253_248, 50, "add", 4, 2_776_576),
    "unet": Figures((1, 3, 256, 256), 31_037_633, 96_334_774_272, 4, "concat"),
    "mobilenet_v2": Figures(PICTURE, 3_504_872, 601_548_544, 10, "add"),
    "mobilenet_v2 --set width=0.5": Figures(PICTURE, 1_968_680, 194_263_680, 10, "add"),
    "gpt2_block": Figures(TEXT, 7_087_872, 17_716_740_096, 2, "add"),
    "gpt2_block --set n=12": Figures(TEXT, 12 * 7_087_872, 12 * 17_716_740_096, 24, "add"),
    "gpt2_block:gpt2 --set n=12": Figures(
        (1, 1024), 124_439_808, 12 * 17_716_740_096 + 2 * 1024 * 768 * 50_257, 24, "add"
    ),
    "transformer_base_layer": Figures(SENTENCE, 3_152_384, 101_187_584, 2, "add"),
    "rezero_layer": Figures(SENTENCE, 3_150_337, 101_187_584, 2, "add"),
    "highway --input 1x50": Figures((1, 50), 7_650, 3 * 2 * 50 * 50, 1, "highway"),
    "highway:CoupledHighway --set width=50 --input 1x50": Figures(
        (1, 50), 5_100, 2 * 2 * 50 * 50, 0, "highway"
    ),
}


@pytest.mark.parametrize("arguments", FIGURES)
def test_a_published_network_has_its_figures(arguments: str, shown: Shown) -> None:
    expected, block = FIGURES[arguments], shown(arguments)
    assert [tuple(each["shape"]) for each in block["inputs"]] == [expected.input]
    assert (block["parameters"], block["flops"], block["uncounted"]) == (
        expected.parameters,
        expected.flops,
        [],
    )
    assert [edge["operation"] for edge in block["edges"]] == [expected.operation] * expected.skips
    projections = [edge["projection"] for edge in block["edges"] if edge["projection"]]
    assert (len(projections), sum(each["parameters"] for each in projections)) == (
        expected.projected,
        expected.projection_parameters,
    )
    assert block["diagnostics"] == []


@pytest.mark.parametrize("arguments", FIGURES)
def test_the_counter_of_pytorch_finds_the_same_operations(arguments: str) -> None:
    """On meta and in training mode, where it sees through attention."""
    target = arguments.split(maxsplit=1)[0]
    settings = dict(re.findall(r"--set (\w+)=(\S+)", arguments))
    with torch.device("meta"):
        (block,) = prepare(
            target, Request(settings={key: ast.literal_eval(value) for key, value in settings.items()})
        )
        shape = FIGURES[arguments].input
        x = torch.zeros(shape, dtype=torch.int64) if target.endswith(":gpt2") else torch.zeros(shape)
        with FlopCounterMode(display=False) as counter:
            block.module.train()(x)
    assert counter.get_total_flops() == FIGURES[arguments].flops


def test_the_skips_of_the_unet_join_channels_and_hold_what_was_recorded(shown: Shown) -> None:
    block = shown("unet")
    held = {edge["record"]: edge["bytes_held"] for edge in block["edges"]}
    assert held == {"down512": 2 << 20, "down256": 4 << 20, "down128": 8 << 20, "down64": 16 << 20}
    assert sum(held.values()) == 31_457_280
    assert [edge["recorded_shape"][1] for edge in block["edges"]] == [512, 256, 128, 64]
    rows = {row["path"]: row["output_shape"] for row in block["layers"]}
    assert [rows[edge["apply_path"]][1] for edge in block["edges"]] == [1024, 512, 256, 128]


def test_both_skips_of_rezero_share_one_learned_scale(shown: Shown) -> None:
    block = shown("rezero_layer")
    assert [(edge["scale"]["value"], edge["scale"]["learnable"]) for edge in block["edges"]] == [
        (0, True)
    ] * 2
    applies = [row["parameters"] for row in block["layers"] if row["kind"] == "apply"]
    assert applies == [1, 0]


@pytest.mark.parametrize(
    ("shortcut", "parameters"),
    [
        ("nn.Conv2d(channels, width, kernel_size=1, stride=stride)", 11_688_616),
        ("nn.Conv2d(channels, width, kernel_size=1, stride=stride, bias=False)", 11_687_720),
    ],
)
def test_a_resnet_with_another_shortcut_has_other_figures(
    shortcut: str, parameters: int, document: Document, tmp_path: Path
) -> None:
    (spec,) = (spec for spec in shipped_specs() if spec.name == "resnet18")
    head, rest = spec.path.read_text(encoding="utf-8").split("nn.Sequential(\n", 1)
    _, tail = rest.split("        )\n", 1)
    changed = tmp_path / "changed.py"
    changed.write_text(f"{head}{shortcut}\n{tail}", encoding="utf-8")
    (block,) = document("show", str(changed))["blocks"]
    assert block["parameters"] == parameters != FIGURES["resnet18"].parameters
    assert len(block["edges"]) == FIGURES["resnet18"].skips


# ---------------------------------------------------------------- outputs


def built(target: str, **settings: object) -> nn.Module:
    (block,) = prepare(target, Request(settings=settings))
    return block.module


def tensors_of(module: nn.Module) -> list[Tensor]:
    return [*module.parameters(), *module.buffers()]


def give_values(module: nn.Module) -> None:
    """Make every weight matter, also those that begin as ones and zeros."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for tensor in tensors_of(module):
            if tensor.dim() == 1:
                tensor.copy_(0.5 + torch.rand(tensor.shape, generator=generator, dtype=tensor.dtype))


def copy_weights(source: nn.Module, target: nn.Module) -> None:
    """Copy parameters and buffers, both in the order in which they were defined."""
    with torch.no_grad():
        for given, taken in zip(tensors_of(source), tensors_of(target), strict=True):
            assert given.shape == taken.shape
            taken.copy_(given)


def example(*shape: int, below: int | None = None) -> Tensor:
    generator = torch.Generator().manual_seed(2)
    if below is not None:
        return torch.randint(below, shape, generator=generator)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def compared(spec: nn.Module, reference: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return what the two make of x, in its precision: double where that is quick, so that no difference hides."""
    dtype = x.dtype if x.is_floating_point() else torch.float64
    spec, reference = spec.to(dtype).eval(), reference.to(dtype).eval()
    return spec(x), reference(x)


def same_weights(spec: nn.Module, reference: nn.Module) -> None:
    give_values(spec)
    copy_weights(spec, reference)


def test_resnet18_computes_what_plain_pytorch_does() -> None:
    spec = built("resnet18", width=4, num_classes=10)
    reference = references.ResNet(references.BasicBlock, (2, 2, 2, 2), 4)
    same_weights(spec, reference)
    torch.testing.assert_close(*compared(spec, reference, example(2, 3, 65, 65)))


@pytest.mark.parametrize(
    ("depth", "counts"), [(50, (3, 4, 6, 3)), (101, (3, 4, 23, 3)), (152, (3, 8, 36, 3))]
)
def test_resnet50_and_its_deeper_forms_compute_what_plain_pytorch_does(
    depth: int, counts: tuple[int, ...]
) -> None:
    spec = built("resnet50", depth=depth, width=4, num_classes=10)
    reference = references.ResNet(references.Bottleneck, counts, 4)
    same_weights(spec, reference)
    torch.testing.assert_close(*compared(spec, reference, example(2, 3, 65, 65)))


def exchange_halves(reference: references.UNet) -> None:
    """Let the convolutions behind each skip find the recorded channels in front."""
    with torch.no_grad():
        for level in reference.up:
            weight = level.get_parameter("convolutions.0.0.weight")
            weight.copy_(weight.roll(weight.shape[1] // 2, dims=1))


def test_the_unet_computes_what_plain_pytorch_does_up_to_the_order_of_channels() -> None:
    spec = built("unet", width=4)
    reference = references.UNet(4)
    same_weights(spec, reference)
    x = example(2, 3, 32, 48)
    ours, theirs = compared(spec, reference, x)
    assert not torch.allclose(ours, theirs)
    exchange_halves(reference)
    torch.testing.assert_close(*compared(spec, reference, x))


def test_mobilenet_v2_computes_what_plain_pytorch_does() -> None:
    spec, reference = built("mobilenet_v2"), references.MobileNetV2()
    same_weights(spec, reference)
    # Depthwise convolutions in double precision take a hundred times as long.
    ours, theirs = compared(spec, reference, example(2, 3, 32, 32).float())
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    assert theirs.std() > 0.1


@pytest.mark.parametrize("n", [1, 3])
def test_gpt2_blocks_compute_what_plain_pytorch_does(n: int) -> None:
    spec = built("gpt2_block", n=n, width=24, heads=4)
    reference = nn.Sequential(*(references.GPT2Block(24, 4) for _ in range(n)))
    same_weights(spec, reference)
    torch.testing.assert_close(*compared(spec, reference, example(2, 7, 24)))


def test_gpt2_computes_what_plain_pytorch_does() -> None:
    spec = built("gpt2_block:gpt2", n=2, width=24, heads=4, vocabulary=31, context=16)
    reference = references.GPT2(2, 24, 4, 31, 16)
    same_weights(spec, reference)
    torch.testing.assert_close(*compared(spec, reference, example(2, 7, below=31)))


def test_the_transformer_layer_computes_what_the_one_of_pytorch_does() -> None:
    spec = built("transformer_base_layer")
    give_values(spec)
    attention, norm1, linear1, linear2, norm2 = (cast("nn.Sequential", spec)[i] for i in (1, 3, 5, 7, 9))
    reference = nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True)
    ours = nn.ModuleList([attention, linear1, linear2, norm1, norm2])
    copy_weights(ours, reference)
    assert sum(p.numel() for p in reference.parameters()) == FIGURES["transformer_base_layer"].parameters
    torch.testing.assert_close(*compared(spec, reference, example(2, 5, 512)))


def test_the_rezero_layer_computes_what_plain_pytorch_does_and_starts_as_the_identity() -> None:
    spec = built("rezero_layer", width=24, heads=4, hidden=48)
    x = example(2, 5, 24)
    assert torch.equal(spec.double()(x), x)
    reference = references.ReZeroLayer(24, 4, 48).double()
    same_weights(spec, reference)
    ours, theirs = compared(spec, reference, x)
    torch.testing.assert_close(ours, theirs)
    assert not torch.allclose(ours, x)


def test_the_highway_layers_compute_what_plain_pytorch_does() -> None:
    x = example(3, 50)
    for spec, reference in (
        (built("highway"), references.TwoGateHighway(50)),
        (built("highway:CoupledHighway", width=50), references.CoupledHighway(50)),
    ):
        same_weights(spec, reference)
        torch.testing.assert_close(*compared(spec, reference, x))


def test_a_skip_that_weighs_a_little_more_would_be_noticed() -> None:
    spec = built("resnet50", width=4, num_classes=10)
    reference = references.ResNet(references.Bottleneck, (3, 4, 6, 3), 4)
    same_weights(spec, reference)
    (first, *_) = (module for module in spec.modules() if isinstance(module, Apply))
    first.alpha = 1.001
    with pytest.raises(AssertionError, match="not close"):
        torch.testing.assert_close(*compared(spec, reference, example(2, 3, 65, 65)))


def test_an_unknown_depth_is_refused_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", "resnet50", "--set", "depth=51"]) == 3
    assert "depth must be one of 50, 101, 152; found 51" in capsys.readouterr().err


def test_the_parameters_named_in_docstrings_are_those_of_the_figures() -> None:
    text = " ".join(" ".join(Path(spec.path).read_text(encoding="utf-8").split()) for spec in shipped_specs())
    for arguments, figures in FIGURES.items():
        if arguments != "gpt2_block --set n=12":  # "twelve times as many"
            assert f"{figures.parameters:,}" in text, arguments


def test_tokens_of_gpt2_do_not_see_those_behind_them() -> None:
    spec = built("gpt2_block", n=2, width=24, heads=4).double()
    x = example(1, 6, 24)
    later = x.clone()
    later[:, 4:] += 1
    before, after = spec(x), spec(later)
    torch.testing.assert_close(before[:, :4], after[:, :4])
    assert not torch.allclose(before[:, 4:], after[:, 4:])
