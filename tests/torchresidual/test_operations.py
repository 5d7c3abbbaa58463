from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn

from tests.torchresidual.toys import gradients
from torchresidual import Apply, ConfigurationError, LearnableAlpha, Record, ResidualSequential
from torchresidual.operations import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Callable

MIXABLE = (torch.float32, torch.bfloat16, torch.int64, torch.int8, torch.bool, torch.complex64)
FORMATS = list(itertools.product(("channels_last", "contiguous"), repeat=2))
WEIGHTED = ("add", "multiply", "gated")
ALL = ("add", "concat", "multiply", "gated", "highway")
DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
# The result is rounded once or twice, depending on the kernel.
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}

Coefficient = float | Tensor


def plain(operation: str, x: Tensor, r: Tensor, a: Coefficient) -> Tensor:
    """The contract's expressions, written in plain PyTorch."""
    formulas: dict[str, Callable[[], Tensor]] = {
        "add": lambda: x + a * r,
        "multiply": lambda: x * (1 + a * r),
        "gated": lambda: (1 - a) * x + a * r,
        "concat": lambda: torch.cat([x, r], -1),
    }
    return formulas[operation]()


COEFFICIENTS: dict[str, Callable[[torch.dtype], float | LearnableAlpha | Tensor]] = {
    "one": lambda _: 1.0,
    "zero": lambda _: 0.0,
    "float": lambda _: 0.3,
    "negative": lambda _: -1.75,
    "learnable": lambda _: LearnableAlpha(0.3),
    "learnable moved": lambda dtype: LearnableAlpha(0.3).to(dtype),
    "log": lambda _: LearnableAlpha(0.01, min_value=1e-4, max_value=1.0),
    "scalar tensor": lambda dtype: torch.tensor(0.3, dtype=dtype),
    "parameter of one": lambda dtype: nn.Parameter(torch.tensor([0.3], dtype=dtype)),
    "parameter of fp32": lambda _: nn.Parameter(torch.tensor([0.3, -0.5, 2.0])),
    "layer scale": lambda dtype: nn.Parameter(torch.tensor([0.3, -0.5, 2.0], dtype=dtype)),
}


def plain_value(coefficient: float | LearnableAlpha | Tensor) -> Coefficient:
    """Alpha as the plain expression has it: LearnableAlpha by calling it."""
    return coefficient() if isinstance(coefficient, LearnableAlpha) else coefficient


def learned(coefficient: float | LearnableAlpha | Tensor) -> list[Tensor]:
    if isinstance(coefficient, LearnableAlpha):
        return [coefficient.param]
    return [coefficient] if isinstance(coefficient, nn.Parameter) else []


def between(r_to_x: nn.Module, apply: Apply) -> ResidualSequential:
    return ResidualSequential(Record(name="r"), r_to_x, apply)


class Becomes(nn.Module):
    """Goes on with a given tensor, whatever was recorded."""

    def __init__(self, x: Tensor) -> None:
        super().__init__()
        self.x = x

    def forward(self, _: Tensor) -> Tensor:
        return self.x


def combine(apply: Apply, x: Tensor, r: Tensor) -> Tensor:
    """Run an Apply on x with r recorded, through a block."""
    result: Tensor = between(Becomes(x), apply)(r)
    return result


def x_and_r(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    x = torch.linspace(-2, 2, 12, dtype=torch.float64).reshape(4, 3).to(dtype)
    r = torch.linspace(3, -1, 12, dtype=torch.float64).reshape(4, 3).to(dtype)
    return x.requires_grad_(), r.requires_grad_()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", COEFFICIENTS)
@pytest.mark.parametrize("operation", WEIGHTED)
def test_alpha_gives_value_gradient_and_dtype_of_the_plain_expression(
    operation: str, kind: str, dtype: torch.dtype
) -> None:
    alpha = COEFFICIENTS[kind](dtype)
    x, r = x_and_r(dtype)
    apply = Apply(operation, "r", alpha)
    expected = plain(operation, x, r, plain_value(alpha))
    wanted = gradients(expected, x, r, *learned(alpha))
    got = combine(apply, x, r)
    found = gradients(got, x, r, *learned(alpha))
    assert got.dtype == expected.dtype
    tolerance = TOLERANCE[dtype]
    torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(found, wanted, rtol=4 * tolerance, atol=4 * tolerance)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", COEFFICIENTS)
@pytest.mark.parametrize("operation", ALL)
def test_scale_weighs_the_branch_before_any_operation(operation: str, kind: str, dtype: torch.dtype) -> None:
    scale = COEFFICIENTS[kind](dtype)
    x, r = x_and_r(dtype)
    apply = Apply(operation, "r", 0.5, scale=scale)
    block = between(Becomes(x), apply)
    x_scaled = plain_value(scale) * x
    if operation == "highway":
        if x_scaled.dtype != dtype:
            return  # the gates have one dtype: x and r of two are not theirs to mix
        assert apply.gate_layer is not None
        apply.gate_layer.to(dtype)
        block.materialize(r.detach())
        gates = apply.gate_layer
        assert gates is not None
        transform = torch.sigmoid(gates.get_submodule("transform_gate")(x_scaled))
        expected = transform * x_scaled + torch.sigmoid(gates.get_submodule("carry_gate")(r)) * r
    else:
        expected = plain(operation, x_scaled, r, 0.5)
    wanted = gradients(expected, x, r, *learned(scale))
    got = block(r)
    found = gradients(got, x, r, *learned(scale))
    assert got.dtype == expected.dtype
    tolerance = TOLERANCE[dtype]
    torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(found, wanted, rtol=6 * tolerance, atol=6 * tolerance)


@pytest.mark.parametrize("operation", [*WEIGHTED, "concat"])
def test_dtypes_are_promoted_as_in_the_plain_expression(operation: str) -> None:
    for of_x, of_r, alpha in itertools.product(MIXABLE, MIXABLE, (1.0, 0.5, 2.0)):
        x, r = torch.tensor([[1, 0, 3]]).to(of_x), torch.tensor([[0, 1, 4]]).to(of_r)
        expected = plain(operation, x, r, alpha)
        got = combine(Apply(operation, "r", alpha), x, r)
        assert got.dtype == expected.dtype
        torch.testing.assert_close(got, expected)


def test_adding_integers_with_alpha_one_gives_the_formula() -> None:
    got = combine(Apply("add", "r"), torch.tensor([1, 2]), torch.tensor([10, 20]))
    expected = torch.tensor([1, 2]) + 1.0 * torch.tensor([10, 20])
    assert got.dtype == expected.dtype
    assert torch.equal(got, expected)


@pytest.mark.parametrize("alpha", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("operation", WEIGHTED)
def test_infinities_come_out_as_the_formula_gives_them(operation: str, grad: bool, alpha: float) -> None:
    values = [float("-inf"), float("inf"), 0.0, 1.5, -2.0]
    x, r = (part.clone() for part in torch.tensor(list(itertools.product(values, repeat=2))).unbind(1))
    x.requires_grad_(grad)
    got = combine(Apply(operation, "r", alpha), x, r)
    torch.testing.assert_close(got, plain(operation, x, r, alpha), equal_nan=True)


def test_masked_logits_stay_masked_under_a_learned_gate() -> None:
    masked = torch.tensor([float("-inf"), 0.5])
    got = combine(Apply("gated", "r", LearnableAlpha(0.5)), masked, masked)
    assert torch.equal(got.detach(), masked)


@pytest.mark.parametrize("kind", ["one", "float", "learnable", "parameter of one"])
@pytest.mark.parametrize("operation", [*WEIGHTED, "concat"])
@pytest.mark.parametrize("mixed", ["x", "r"])
def test_cpu_autocast_with_one_fp32_end_gives_the_plain_expression(
    operation: str, kind: str, mixed: str
) -> None:
    alpha = COEFFICIENTS[kind](torch.float32)
    x, r = x_and_r(torch.float32)
    x, r = (x.bfloat16(), r) if mixed == "r" else (x, r.bfloat16())
    with torch.autocast("cpu", torch.bfloat16):
        expected = plain(operation, x, r, plain_value(alpha))
        got = combine(Apply(operation, "r", alpha), x, r)
    assert got.dtype == expected.dtype == torch.float32
    torch.testing.assert_close(got, expected, rtol=1e-2, atol=1e-2)


def test_under_autocast_the_projection_and_the_gates_work_as_other_layers_do() -> None:
    block = ResidualSequential(Record(need_projection=True), nn.Linear(4, 6), Apply("highway"))
    x = torch.randn(3, 4)
    with torch.autocast("cpu", torch.bfloat16):
        got = block(x)
    torch.testing.assert_close(got.float(), block(x), rtol=5e-2, atol=5e-2)
    assert got.dtype == torch.bfloat16


@pytest.mark.parametrize("kind", ["one", "float", "learnable", "parameter of one"])
@pytest.mark.parametrize("operation", [*WEIGHTED, "highway", "concat"])
@pytest.mark.parametrize("formats", FORMATS, ids="-".join)
def test_memory_formats_are_those_of_the_plain_expression(
    operation: str, kind: str, formats: tuple[str, str]
) -> None:
    alpha = COEFFICIENTS[kind](torch.float32)
    x, r = torch.randn(2, 3, 4, 5), torch.randn(2, 3, 4, 5)
    x, r = (
        part.contiguous(
            memory_format=torch.channels_last if one == "channels_last" else torch.contiguous_format
        )
        for part, one in zip((x, r), formats, strict=True)
    )
    apply = Apply(operation, "r", alpha, dim=1)
    block = between(Becomes(x), apply)
    if operation == "concat":
        expected = torch.cat([x, r], 1)
    elif operation == "highway":
        block.materialize(r)
        gates = apply.gate_layer
        assert gates is not None
        assert isinstance(gates.get_submodule("carry_gate"), nn.Conv2d)
        transform = torch.sigmoid(gates.get_submodule("transform_gate")(x))
        expected = transform * x + torch.sigmoid(gates.get_submodule("carry_gate")(r)) * r
    else:
        expected = plain(operation, x, r, plain_value(alpha))
    got = block(r)
    assert got.stride() == expected.stride()
    torch.testing.assert_close(got, expected)
    if formats == ("channels_last", "channels_last"):
        assert got.is_contiguous(memory_format=torch.channels_last)


def test_an_unknown_operation_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        ConfigurationError, match=r"one of add, concat, multiply, gated, highway; found 'subtract'"
    ):
        Apply("subtract")


def test_the_table_of_operations_has_the_five() -> None:
    assert tuple(OPERATIONS) == ALL
    assert [operation.name for operation in OPERATIONS.values() if operation.weighted is None] == [
        "concat",
        "highway",
    ]


class TestKnownRecipes:
    """Blocks of papers against their formulas."""

    def test_deepnorm_is_a_constant_weight_on_the_skip(self) -> None:
        # https://arxiv.org/abs/2203.00555: LN(alpha * x + f(x)), alpha = (2N)^(1/4)
        alpha = (2 * 18) ** 0.25
        branch, norm = nn.Linear(6, 6), nn.LayerNorm(6)
        block = ResidualSequential(Record(), branch, Apply(alpha=alpha), norm)
        x = torch.randn(3, 6)
        torch.testing.assert_close(block(x), norm(alpha * x + branch(x)))

    def test_rezero_starts_as_the_identity_and_learns_one_scalar(self) -> None:
        # https://arxiv.org/abs/2003.04887: x + s * f(x), s = 0 at the start
        scale = nn.Parameter(torch.zeros(1))
        branch = nn.Linear(6, 6)
        block = ResidualSequential(Record(), branch, Apply(scale=scale))
        x = torch.randn(3, 6)
        out = block(x)
        assert torch.equal(out, x)
        out.sum().backward()
        assert scale.grad is not None
        torch.testing.assert_close(scale.grad, branch(x).sum().reshape(1))
        assert [name for name, _ in block.named_parameters()] == ["1.weight", "1.bias", "2.scale"]

    def test_skipinit_is_a_scalar_behind_the_branch(self) -> None:
        # https://arxiv.org/abs/2002.10444
        scale = nn.Parameter(torch.tensor(0.25))
        branch = nn.Conv2d(4, 4, 3, padding=1)
        block = ResidualSequential(Record(), branch, nn.ReLU(), Apply(scale=scale))
        x = torch.randn(2, 4, 5, 5)
        torch.testing.assert_close(block(x), x + scale * branch(x).relu())

    def test_layerscale_is_a_weight_for_each_channel(self) -> None:
        # https://arxiv.org/abs/2103.17239
        scale = nn.Parameter(torch.full((6,), 1e-4))
        norm, branch = nn.LayerNorm(6), nn.Linear(6, 6)
        block = ResidualSequential(Record(), norm, branch, Apply(scale=scale))
        x = torch.randn(2, 3, 6)
        torch.testing.assert_close(block(x), x + scale * branch(norm(x)))
        torch.testing.assert_close(gradients(block(x), scale), gradients(x + scale * branch(norm(x)), scale))

    def test_a_learned_scale_and_a_learned_alpha_both_get_their_gradients(self) -> None:
        alpha, scale = LearnableAlpha(0.25), LearnableAlpha(0.5, max_value=2.0)
        branch = nn.Linear(6, 6)
        block = ResidualSequential(Record(), branch, Apply("gated", alpha=alpha, scale=scale))
        x = torch.randn(3, 6)
        expected = (1 - alpha()) * (scale() * branch(x)) + alpha() * x
        torch.testing.assert_close(block(x), expected)
        parameters = list(block.parameters())
        torch.testing.assert_close(gradients(block(x), *parameters), gradients(expected, *parameters))

    def test_an_object_that_serves_several_applies_is_counted_once(self) -> None:
        alpha, scale = LearnableAlpha(0.5), nn.Parameter(torch.ones(4))
        block = ResidualSequential(
            Record(),
            nn.Linear(4, 4),
            Apply(alpha=alpha, scale=scale),
            nn.Linear(4, 4),
            Apply(alpha=alpha, scale=scale),
        )
        assert sum(parameter.numel() for parameter in block.parameters()) == 2 * 20 + 1 + 4
        x = torch.randn(2, 4)
        hidden = scale * block[1](x) + alpha() * x
        torch.testing.assert_close(block(x), scale * block[3](hidden) + alpha() * x)


def test_an_integer_alpha_keeps_integers() -> None:
    block = ResidualSequential(Record(), nn.Identity(), Apply(alpha=2))
    out = block(torch.tensor([16777217]))
    assert out.tolist() == [16777217 * 3]
    assert out.dtype == torch.int64


def test_mixed_dtypes_round_like_the_formula() -> None:
    x, r = torch.randn(64), torch.randn(64).bfloat16()
    for operation, expected in (("add", x + 0.3 * r), ("gated", (1 - 0.3) * x + 0.3 * r)):
        block = ResidualSequential(Record(), Replaced(x), Apply(operation, alpha=0.3))
        assert torch.equal(block(r), expected)


class Replaced(nn.Module):
    """Returns another tensor than it gets."""

    def __init__(self, other: torch.Tensor) -> None:
        super().__init__()
        self.other = other

    def forward(self, _: torch.Tensor) -> torch.Tensor:
        return self.other
