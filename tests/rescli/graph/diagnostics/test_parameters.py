"""Parameters without a size, and without a gradient; each beside a twin that has them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tests.rescli.graph.finding import Case, Scale, found, linear, messages
from torchresidual import Apply, Record, ResidualSequential


class Branches(nn.Module):
    """Runs one of its two layers, the other only in one of the modes, or never."""

    def __init__(self, *, other_in: bool | None = None) -> None:
        super().__init__()
        self.used, self.other = linear(), linear()
        self.other_in = other_in

    def forward(self, x: Tensor) -> Tensor:
        used: Tensor = self.used(x)
        return used + self.other(x) if self.training is self.other_in else used


class Detached(nn.Module):
    """Lets no gradient through."""

    def forward(self, x: Tensor) -> Tensor:
        return x.detach()


class _Refusing(torch.autograd.Function):
    @staticmethod
    def forward(_: object, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(_: object, *_grads: Tensor) -> Tensor:
        raise RuntimeError("this way is closed")


class Refusing(nn.Module):
    """Fails in the backward pass alone."""

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = _Refusing.apply(x)  # type: ignore[no-untyped-call]  # torch leaves it so
        return result


def skip(*layers: nn.Module) -> ResidualSequential:
    return ResidualSequential(Record(name="a"), *layers, Apply(record_name="a"))


def unsettled() -> ResidualSequential:
    return ResidualSequential(Record(True, "a"), Scale(2), Apply(record_name="a"))


def materialized() -> nn.Module:
    return unsettled().materialize(torch.zeros(2, 4))


def frozen() -> nn.Module:
    layer = Branches()
    layer.other.requires_grad_(False)
    return skip(layer)


CASES = {
    "a parameter that no output depends on": Case(
        lambda: skip(Branches()), frozen, [("no-gradient", "warning", "1.other")], backward=True
    ),
    "a layer that only runs in training": Case(
        lambda: skip(Branches()),
        lambda: skip(Branches(other_in=True)),
        [("no-gradient", "warning", "1.other")],
        backward=True,
    ),
    "a layer that only runs in evaluation": Case(
        lambda: skip(Branches()),
        lambda: skip(Branches(other_in=False)),
        [("no-gradient", "warning", "1.other")],
        backward=True,
    ),
    "a graph that is cut": Case(
        lambda: nn.Sequential(linear(), Detached()),
        lambda: nn.Sequential(Detached(), linear()),
        [("no-gradient", "warning", "0")],
        backward=True,
    ),
    "a backward pass that fails": Case(
        lambda: skip(linear(), Refusing()),
        lambda: skip(Refusing(), Detached(), linear()),
        [("backward-failed", "error", "")],
        backward=True,
    ),
    "a projection whose sizes nobody knows yet": Case(
        unsettled, materialized, [("unsettled-parameters", "note", "2.projection_layer")]
    ),
    "a lazy layer": Case(
        lambda: nn.Sequential(nn.LazyLinear(3)),
        lambda: nn.Sequential(nn.Linear(4, 3)),
        [("unsettled-parameters", "note", "0")],
    ),
}


@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature")
@pytest.mark.parametrize("name", CASES)
def test_a_fault_is_found_and_its_twin_is_not(name: str) -> None:
    CASES[name].check()


def test_without_a_backward_pass_nothing_is_said_of_gradients() -> None:
    assert found(skip(Branches())) == []


def test_messages_name_the_parameters_and_the_way_out() -> None:
    assert messages(skip(Branches()), backward=True) == [
        (
            "weight, bias get no gradient in a backward pass from all outputs",
            "let it reach the output, take it out, or freeze it with requires_grad_(False); "  # noqa: ISC004
            "DistributedDataParallel would wait for its gradient",
        )
    ]
    ((message, hint),) = messages(unsettled())
    assert message == (
        "2 parameters without a size before the first run: 2.projection_layer.weight, 2.projection_layer.bias"
    )
    assert (
        hint == "materialize(example) settles them; do it before DataParallel, DDP, FSDP, compile and export"
    )


def test_a_backward_pass_that_fails_says_why() -> None:
    ((message, hint),) = messages(skip(linear(), Refusing()), backward=True)
    assert message == "the backward pass failed: RuntimeError: this way is closed"
    assert hint == "torch.autograd.set_detect_anomaly(True) shows which forward operation it belongs to"


@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature")
def test_what_is_no_residual_block_has_no_materialize() -> None:
    ((_, hint),) = messages(nn.Sequential(nn.LazyLinear(3)))
    assert hint.startswith("a first run settles them; ")
