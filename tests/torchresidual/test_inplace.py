from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn

from tests.torchresidual.toys import InOrder, SameTensor, WritesInPlace
from torchresidual import Apply, InPlaceError, Record, ResidualSequential

if TYPE_CHECKING:
    from collections.abc import Callable

# Every layer of torch.nn that takes `inplace`.
IN_PLACE: tuple[Callable[[], nn.Module], ...] = (
    lambda: nn.ReLU(inplace=True),
    lambda: nn.ReLU6(inplace=True),
    lambda: nn.RReLU(0.25, 0.25, inplace=True),
    lambda: nn.LeakyReLU(0.1, inplace=True),
    lambda: nn.ELU(inplace=True),
    lambda: nn.CELU(inplace=True),
    lambda: nn.SELU(inplace=True),
    lambda: nn.SiLU(inplace=True),
    lambda: nn.Mish(inplace=True),
    lambda: nn.Hardtanh(inplace=True),
    lambda: nn.Hardswish(inplace=True),
    lambda: nn.Hardsigmoid(inplace=True),
    lambda: nn.Threshold(0.1, 0.2, inplace=True),
    lambda: nn.Dropout(0.0, inplace=True),
    lambda: nn.Dropout1d(0.0, inplace=True),
    lambda: nn.Dropout2d(0.0, inplace=True),
    lambda: nn.Dropout3d(0.0, inplace=True),
    lambda: nn.AlphaDropout(0.0, inplace=True),
    lambda: nn.FeatureAlphaDropout(0.0, inplace=True),
)

# What may stand between, without making a new tensor.
BETWEEN: dict[str, Callable[[], list[nn.Module]]] = {
    "nothing": list,
    "identity": lambda: [nn.Identity()],
    "dropout": lambda: [nn.Dropout(0.5)],
    "flatten": lambda: [nn.Flatten(1)],
    "unflatten and back": lambda: [nn.Unflatten(1, (1, 2)), nn.Flatten(1)],
    "a container": lambda: [nn.Sequential(nn.Identity(), nn.Sequential(nn.Flatten(1)))],
    "a view of the user's own": lambda: [SameTensor()],
}

MODES: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "grad": nullcontext,
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
}


def an_input(mode: str) -> Tensor:
    return torch.tensor([[-1.0, 2.0]], requires_grad=mode == "grad")


def watch(block: nn.Module) -> None:
    """Put a hook on everything, so that Records, Applies and containers run as modules."""
    for module in block.modules():
        module.register_forward_hook(lambda *_: None)


def assert_right(block: nn.Module, mode: str) -> None:
    x = an_input(mode)
    with MODES[mode]():
        out = block(x)
    assert torch.equal(out, torch.tensor([[-1.0, 4.0]]))
    assert torch.equal(x, an_input(mode)), "the caller's tensor was changed"
    if mode == "grad":
        out.sum().backward()
        assert x.grad is not None
        assert torch.equal(x.grad, torch.tensor([[1.0, 2.0]]))


@pytest.mark.parametrize("hooked", [False, True], ids=["", "hooked"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("between", BETWEEN)
def test_an_in_place_layer_leaves_the_recorded_tensor_alone(between: str, mode: str, hooked: bool) -> None:
    relu = nn.ReLU(inplace=True)
    block = ResidualSequential(Record(name="s"), *BETWEEN[between](), relu, Apply("add", "s")).eval()
    if hooked:
        watch(block)
    assert_right(block, mode)


@pytest.mark.parametrize("hooked", [False, True], ids=["", "hooked"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("between", BETWEEN)
def test_an_in_place_layer_in_containers_leaves_the_recorded_tensor_alone(
    between: str, mode: str, hooked: bool
) -> None:
    def layers() -> list[nn.Module]:
        return [*BETWEEN[between](), nn.ReLU(inplace=True)]

    plain = ResidualSequential(Record(name="s"), nn.Sequential(*layers()), Apply("add", "s"))
    nested = ResidualSequential(Record(name="s"), ResidualSequential(*layers()), Apply("add", "s"))
    with_apply = ResidualSequential(Record(name="s"), nn.Sequential(*layers(), Apply("add", "s")))
    whole = ResidualSequential(nn.Sequential(Record(name="s"), *layers(), Apply("add", "s")))
    reading_out = ResidualSequential(Record(name="s"), ResidualSequential(*layers(), Apply("add", "s")))
    for block in (plain, nested, with_apply, whole, reading_out):
        block.eval()
        if hooked:
            watch(block)
        assert_right(block, mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("number", range(len(IN_PLACE)), ids=lambda number: type(IN_PLACE[number]()).__name__)
def test_every_in_place_layer_of_torch_gives_what_its_twin_gives(number: int, mode: str) -> None:
    layer = IN_PLACE[number]()
    twin = IN_PLACE[number]()
    assert layer.inplace
    twin.__dict__["inplace"] = False
    shape = (2, 3, 4) if isinstance(layer, nn.Dropout1d) else (2, 3, 2, 2)
    for training in (True, False):
        got_of, expected_of = (
            ResidualSequential(Record(), one, Apply("multiply", alpha=0.5)).train(training)
            for one in (layer, twin)
        )
        x, y = (torch.linspace(-3, 3, 24).reshape(shape).requires_grad_(mode == "grad") for _ in range(2))
        with MODES[mode]():
            got, expected = got_of(x), expected_of(y)
        torch.testing.assert_close(got, expected)
        assert torch.equal(x, y)
        if mode == "grad":
            got.sum().backward()
            expected.sum().backward()
            torch.testing.assert_close(x.grad, y.grad)


@pytest.mark.parametrize("mode", MODES)
def test_a_layer_told_later_to_work_in_place_is_noticed(mode: str) -> None:
    relu, nested = nn.ReLU(), nn.Sequential(nn.Identity(), nn.ReLU())
    direct = ResidualSequential(Record(), relu, Apply())
    inner = ResidualSequential(Record(), nested, Apply())
    assert_right(direct, mode)
    assert_right(inner, mode)
    for layer in (relu, nested[1]):
        layer.__dict__["inplace"] = True
    assert_right(direct, mode)
    assert_right(inner, mode)


@pytest.mark.parametrize("mode", MODES)
def test_an_in_place_layer_put_into_a_nested_container_later_is_noticed(mode: str) -> None:
    nested = nn.Sequential(nn.Identity())
    block = ResidualSequential(Record(), nn.Sequential(nested), Apply())
    block(an_input(mode))
    nested.append(nn.ReLU(inplace=True))
    assert_right(block, mode)


@pytest.mark.parametrize("mode", MODES)
def test_records_inside_a_layer_of_the_users_own_are_left_alone(mode: str) -> None:
    before = ResidualSequential(InOrder(Record(name="s")), nn.ReLU(inplace=True), Apply("add", "s"))
    around = ResidualSequential(InOrder(Record(name="s"), nn.ReLU(inplace=True)), Apply("add", "s"))
    assert_right(before, mode)
    assert_right(around, mode)


@pytest.mark.parametrize("hooked", [False, True], ids=["", "hooked"])
@pytest.mark.parametrize("mode", ["grad", "no_grad"])
def test_a_layer_of_the_users_own_that_writes_in_place_is_named(mode: str, hooked: bool) -> None:
    block = ResidualSequential(Record(name="s"), nn.Identity(), WritesInPlace(), Apply("add", "s"))
    if hooked:
        watch(block)
    with MODES[mode](), pytest.raises(InPlaceError) as caught:
        block(torch.zeros(2, 3))
    message = str(caught.value)
    assert "WritesInPlace" in message
    assert "at '2'" in message
    assert "'s'" in message
    assert "x = x + 1, not x += 1" in message


def test_in_inference_mode_a_layer_of_the_users_own_gets_a_copy() -> None:
    block = ResidualSequential(Record(name="s"), WritesInPlace(), Apply("add", "s"))
    with torch.inference_mode():
        assert torch.equal(block(torch.zeros(2)), torch.ones(2))


def test_a_sequential_with_a_forward_of_its_own_is_not_taken_for_its_children() -> None:
    class Writes(nn.Sequential):
        def forward(self, x: Tensor) -> Tensor:
            return x.add_(1)

    block = ResidualSequential(Record(name="s"), Writes(nn.Linear(2, 2)), Apply("add", "s"))
    with pytest.raises(InPlaceError, match=r"Writes at '1'"):
        block(torch.zeros(1, 2))


def test_a_write_after_the_last_reader_is_nobodys_business() -> None:
    block = ResidualSequential(Record(), nn.Linear(2, 2), Apply(), WritesInPlace(), nn.ReLU(inplace=True))
    assert block(torch.zeros(1, 2)).shape == (1, 2)


def test_no_copy_is_made_where_the_input_is_no_recorded_memory() -> None:
    seen: list[int] = []
    relu = nn.ReLU(inplace=True)
    relu.register_forward_pre_hook(lambda _, args: seen.append(args[0].data_ptr()))
    linear = nn.Linear(2, 2)
    linear.register_forward_hook(lambda _, __, out: seen.append(out.data_ptr()))
    ResidualSequential(Record(), linear, relu, Apply())(torch.zeros(1, 2))
    assert seen[0] == seen[1]


def test_without_the_block_the_fault_is_there() -> None:
    x = torch.tensor([-1.0, 2.0])
    out = nn.ReLU(inplace=True)(x) + x
    assert torch.equal(out, torch.tensor([0.0, 4.0])), (
        "the plain code that these tests guard against went right"
    )
