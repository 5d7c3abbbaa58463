"""Random blocks equal the direct interpreter, in value and gradient, however they run."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.torchresidual.properties import DETERMINISTIC
from tests.torchresidual.random_blocks import FEATURES, applies, blocks, children, records
from tests.torchresidual.reference import NothingRecordedError, interpret
from tests.torchresidual.toys import gradients
from torchresidual import Apply, Record, ResidualSequential, UnknownRecordError

pytestmark = [
    # Random blocks contain Applies without a Record: that they are refused is part of what is tested.
    pytest.mark.filterwarnings("ignore:the Apply at"),
]


def an_input() -> Tensor:
    return torch.linspace(-1.5, 1.5, 2 * FEATURES, dtype=torch.float64).reshape(2, FEATURES)


def assert_same_as_reference(block: ResidualSequential) -> None:
    """Assert that block and interpreter give the same value and gradients, or refuse both."""
    x, y = an_input().requires_grad_(), an_input().requires_grad_()
    try:
        got = block(y)  # first: it settles what construction could not size
    except UnknownRecordError:
        with pytest.raises(NothingRecordedError):
            interpret(block, x)
        return
    expected = interpret(block, x)
    torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-7)
    if not expected.requires_grad:
        assert not got.requires_grad
        return
    parameters = list(block.parameters())
    weights = torch.linspace(0.5, 1.5, expected.numel(), dtype=expected.dtype).reshape(expected.shape)
    wanted = torch.autograd.grad((expected * weights).sum(), [x, *parameters], allow_unused=True)
    found = torch.autograd.grad((got * weights).sum(), [y, *parameters], allow_unused=True)
    for one, other in zip(found, wanted, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-7)
    assert torch.equal(y, an_input()), "the caller's tensor was changed"


def recorded_first(block: ResidualSequential) -> ResidualSequential:
    """Return the block behind a layer that makes a new tensor, so that in-place layers find no leaf."""
    return block.insert(0, nn.Softplus())


@DETERMINISTIC
@given(blocks())
def test_a_random_block_equals_the_reference(block: ResidualSequential) -> None:
    assert_same_as_reference(recorded_first(block))


@DETERMINISTIC
@given(blocks(), st.sampled_from(("module", "global")))
def test_hooks_change_no_result(block: ResidualSequential, where: str) -> None:
    block = recorded_first(block)
    if where == "global":
        handle = nn.modules.module.register_module_forward_hook(lambda *_: None)
        try:
            assert_same_as_reference(block)
        finally:
            handle.remove()
        return
    for module in block.modules():
        module.register_forward_hook(lambda *_: None)
    assert_same_as_reference(block)


@DETERMINISTIC
@given(blocks(), st.booleans())
def test_inference_mode_changes_no_result(block: ResidualSequential, hooked: bool) -> None:
    block = recorded_first(block)
    if hooked:
        for module in block.modules():
            module.register_forward_hook(lambda *_: None)
    with torch.inference_mode():
        try:
            got = block(an_input())
        except UnknownRecordError:
            with pytest.raises(NothingRecordedError):
                interpret(block, an_input())
            return
        torch.testing.assert_close(got, interpret(block, an_input()), rtol=1e-6, atol=1e-7)


@DETERMINISTIC
@given(blocks())
def test_a_copy_of_a_random_block_is_a_block_of_its_own(block: ResidualSequential) -> None:
    block = recorded_first(block)
    twin = copy.deepcopy(block)
    assert_same_as_reference(twin)
    assert not {id(module) for module in twin.modules()} & {id(module) for module in block.modules()}
    assert_same_as_reference(block)


Edit = tuple[str, int, Any]


@st.composite
def edits(draw: st.DrawFn) -> Edit:
    kind = draw(
        st.sampled_from(
            (
                "append",
                "insert",
                "delete",
                "slice",
                "set",
                "setattr",
                "extend",
                "pop",
                "plus",
                "iadd",
                "times",
                "deep",
            )
        )
    )
    layer = draw(st.one_of(records(), applies(), children(1).map(lambda layers: nn.Sequential(*layers))))
    return kind, draw(st.integers(0, 9)), layer.double()


def edited(block: ResidualSequential, edit: Edit) -> ResidualSequential:  # noqa: C901, PLR0912 - one case an edit
    kind, number, layer = edit
    last = len(block) - 1
    index = min(number, last)
    if kind == "append":
        block.append(layer)
    elif kind == "insert":
        block.insert(index, layer)
    elif kind == "delete" and last > 1:
        del block[max(index, 1)]
    elif kind == "slice" and last > 3:
        del block[2:4]
    elif kind == "set" and index:
        block[index] = layer
    elif kind == "setattr" and index:
        setattr(block, str(index), layer)
    elif kind == "extend":
        block.extend([layer, nn.GELU()])
    elif kind == "pop" and last > 1:
        block.pop(last)
    elif kind == "plus":
        block = block + nn.Sequential(layer)
    elif kind == "iadd":
        block += nn.Sequential(layer)
    elif kind == "times" and last < 6:
        block = block * 2
    elif kind == "deep":
        containers = [one for one in block.modules() if isinstance(one, nn.Sequential) and one is not block]
        if containers:
            containers[number % len(containers)].append(layer)
    return block


@DETERMINISTIC
@given(blocks(), st.lists(edits(), min_size=1, max_size=4), st.booleans())
def test_edits_keep_a_block_equal_to_the_reference(
    block: ResidualSequential, changes: list[Edit], run_before: bool
) -> None:
    block = recorded_first(block)
    for change in changes:
        if run_before:
            _run_quietly(block)
        block = edited(block, change)
    block = recorded_first(block).double()
    assert isinstance(block, ResidualSequential)
    assert_same_as_reference(block)


def _run_quietly(block: ResidualSequential) -> None:
    try:
        block(an_input())
    except UnknownRecordError:
        return


def test_the_reference_itself_gives_numbers_worked_out_by_hand() -> None:
    block = ResidualSequential(
        Record(name="a"),
        nn.Hardtanh(inplace=True),
        ResidualSequential(
            Record(), nn.Hardtanh(-0.5, 0.5, inplace=True), Apply("add"), Apply("multiply", "a", 0.5)
        ),
        Apply("gated", "a", 0.25, scale=2.0),
    )
    x = torch.tensor([-2.0, 0.25])
    # [-2, .25] -> [-1, .25] -> [-.5, .25] + [-1, .25] = [-1.5, .5] -> * (1 + [-1, .125]) = [0, .5625]
    # -> .75 * 2 * [0, .5625] + .25 * [-2, .25]
    expected = torch.tensor([-0.5, 0.84375 + 0.0625])
    assert torch.equal(interpret(block, x), expected)
    assert torch.equal(block(x), expected)
    grad = gradients(block(x.requires_grad_()), x)[0]
    assert grad.shape == x.shape
