from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from rescli.bench.failure import NothingToDifferentiateError
from rescli.bench.passes import Forward, Inference, Training, differentiable_outputs, private_copy
from rescli.bench.subject import add_up

if TYPE_CHECKING:
    from collections.abc import Callable

    from rescli.bench.result import PassName
    from rescli.bench.subject import Exercise


class Spy(nn.Module):
    """Notes in what state each call finds the world."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.gradients: list[bool] = []
        self.modes: list[tuple[bool, bool, bool]] = []
        self.graphs: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.gradients.append(self.layer.weight.grad is not None)
        self.modes.append((self.training, torch.is_grad_enabled(), torch.is_inference_mode_enabled()))
        out: Tensor = self.layer(x)
        self.graphs.append(id(out.grad_fn) if out.requires_grad else 0)
        return out


def marks_of(exercise: Exercise, iterations: int) -> int:
    marks: list[None] = []
    exercise.run(iterations, lambda: marks.append(None))
    return len(marks)


X = torch.ones(2, 4)


def test_inference_is_eval_mode_without_autograd() -> None:
    spy = Spy()
    assert marks_of(Inference(spy, [X]), 3) == 2
    assert spy.modes == [(False, False, True)] * 3


def test_forward_is_training_mode_and_builds_the_graph() -> None:
    spy = Spy()
    assert marks_of(Forward(spy, [X]), 3) == 6
    assert spy.modes == [(True, True, False)] * 3
    assert all(spy.graphs)


def test_forward_builds_the_graph_also_for_a_caller_without_gradients() -> None:
    spy = Spy()
    with torch.no_grad():
        marks_of(Forward(spy, [X]), 1)
        marks_of(Training(spy, [X]), 1)
    assert spy.modes == [(True, True, False)] * 2


def gradients_found_by(kind: type[Training]) -> list[bool]:
    spy = Spy()
    assert marks_of(kind(spy, [X]), 3) == 12
    return spy.gradients


def test_no_step_finds_gradients_of_the_one_before() -> None:
    assert gradients_found_by(Training) == [False, False, False]


def test_an_exercise_that_lets_gradients_accumulate_is_caught() -> None:
    class Accumulating(Training):
        def _forget_gradients(self) -> None:
            pass

    assert gradients_found_by(Accumulating) == [False, True, True]


def test_nothing_of_a_step_stays_behind() -> None:
    spy = Spy()
    marks_of(Training(spy, [X]), 2)
    assert [parameter.grad for parameter in spy.parameters()] == [None, None]


def test_the_backward_pass_starts_from_ones_at_every_output() -> None:
    seen: list[Tensor] = []
    weight = nn.Parameter(torch.tensor([2.0]))
    weight.register_hook(lambda gradient: seen.append(gradient.clone()))  # type: ignore[no-untyped-call] # torch's

    class Extras(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = weight

        def forward(self, x: Tensor) -> tuple[Tensor, list[object]]:
            return x * self.weight, [(self.weight * 3, None), torch.tensor([7]), x.detach()]

    marks_of(Training(Extras(), [torch.full((5,), 1.0)]), 1)
    # Five times one from the output, three from the extra.
    assert [gradient.item() for gradient in seen] == [8.0]


class Named(NamedTuple):
    first: Tensor
    size: int


def test_outputs_are_found_in_every_common_structure() -> None:
    a, b, c = (torch.ones(1, requires_grad=True) for _ in range(3))
    found = list(differentiable_outputs({"a": a, "more": [Named(b, 3), (None, torch.ones(1))], "c": c}))
    assert [id(tensor) for tensor in found] == [id(a), id(b), id(c)]


def test_the_input_requires_a_gradient_only_if_no_parameter_does() -> None:
    grown: list[bool] = []

    class Look(nn.Module):
        def __init__(self, *, learn: bool) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4), requires_grad=learn)

        def forward(self, x: Tensor) -> Tensor:
            grown.append(x.requires_grad)
            return x * self.weight

    for learn in (True, False):
        marks_of(Training(Look(learn=learn), [X.clone()]), 1)
    assert grown == [False, True]


@pytest.mark.parametrize(
    ("module", "inputs", "reason"),
    [
        (nn.Identity(), [torch.ones(2, dtype=torch.int64)], "no parameter and no floating point input"),
        (nn.Embedding(4, 2).requires_grad_(False), [torch.tensor([1])], "no parameter and no floating"),
    ],
)
def test_a_block_without_gradients_is_refused_by_name(
    module: nn.Module, inputs: list[Tensor], reason: str
) -> None:
    with pytest.raises(NothingToDifferentiateError, match=reason):
        Training(module, inputs).run(1, lambda: None)


def test_a_block_that_detaches_its_output_is_refused_by_name() -> None:
    class Detached(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).detach()

    with pytest.raises(NothingToDifferentiateError, match="no output of the block requires a gradient"):
        Training(Detached(4, 4), [X]).run(1, lambda: None)


def test_training_side_effects_stay_on_the_copy() -> None:
    norm = nn.BatchNorm1d(4).eval()
    before = {name: value.clone() for name, value in norm.state_dict().items()}
    x = torch.randn(8, 4)
    module, inputs = private_copy(norm, [x])
    marks_of(Training(module, inputs), 3)
    assert all(torch.equal(value, before[name]) for name, value in norm.state_dict().items())
    assert not norm.training
    assert not x.requires_grad
    # The copy shows that training would have changed it.
    assert not torch.equal(module.state_dict()["running_mean"], before["running_mean"])


def parts_of(
    kind: Callable[[nn.Module, list[Tensor]], Exercise], intervals: list[float]
) -> dict[PassName, float]:
    return add_up(intervals, kind(nn.Linear(4, 4), [X]))


def test_intervals_are_added_up_for_each_pass() -> None:
    assert parts_of(Inference, [6.0]) == {"inference": 6.0}
    # Between two calls lies what is not timed.
    assert parts_of(Forward, [1.0, 100.0, 2.0]) == {"forward": 3.0}
    two_steps = [1.0, 0.5, 3.0, 100.0, 2.0, 0.25, 4.0]
    assert parts_of(Training, two_steps) == {"forward": 3.0, "backward": 7.0, "step": 10.75}
