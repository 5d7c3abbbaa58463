from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from rescli.threads.outcome import Outcome, call, compare, describe_error, same_bits
from rescli.threads.result import Wrong

NAN = float("nan")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (torch.tensor([1.0, NAN]), torch.tensor([1.0, NAN]), True),
        (torch.tensor([0.0]), torch.tensor([-0.0]), False),
        (torch.tensor([1.0]), torch.tensor([1.0 + 2**-23]), False),
        (torch.tensor([1.0]), torch.tensor([1.0], dtype=torch.float64), False),
        (torch.tensor([1.0]), torch.tensor([[1.0]]), False),
        (torch.empty(0, 3), torch.empty(0, 3), True),
        (torch.tensor(2), torch.tensor(2), True),
        (torch.tensor([True]), torch.tensor([False]), False),
        (torch.tensor([1 + 2j]).conj(), torch.tensor([1 - 2j]), True),
        (torch.eye(3)[:, 1], torch.tensor([0.0, 1.0, 0.0]), True),
        (torch.eye(2).to_sparse(), torch.eye(2).to_sparse(), True),
        (torch.eye(2).to_sparse(), torch.eye(2), False),
    ],
)
def test_tensors_are_compared_bit_for_bit(one: Tensor, other: Tensor, same: bool) -> None:
    assert same_bits(one, other) is same


def test_a_call_gives_outputs_and_all_gradients() -> None:
    layer = nn.Linear(2, 1)
    found = call(layer, (torch.ones(3, 2),))
    assert list(found.values) == [
        "output",
        "gradient of input 0",
        "gradient of weight",
        "gradient of bias",
    ]
    assert layer.weight.grad is None
    bias, weight = found.values["gradient of bias"], found.values["gradient of weight"]
    assert isinstance(bias, Tensor)
    assert isinstance(weight, Tensor)
    # Every input is 1, so each weight gets what the bias gets; random cotangents, not ones.
    assert weight[0].tolist() == pytest.approx([bias.item()] * 2)
    assert bias.item() != 3


def test_a_parameter_that_nothing_depends_on_has_no_gradient() -> None:
    class Half(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used = nn.Parameter(torch.ones(2))
            self.spare = nn.Parameter(torch.ones(2))
            self.frozen = nn.Parameter(torch.ones(2), requires_grad=False)

        def forward(self, x: Tensor) -> Tensor:
            return x * self.used

    values = call(Half(), (torch.ones(2),)).values
    assert values["gradient of spare"] is None
    assert "gradient of frozen" not in values


def test_integers_go_in_and_out_without_gradients() -> None:
    assert list(call(nn.Flatten(), (torch.ones(2, 2, dtype=torch.int64),)).values) == ["output"]


def test_without_grad_mode_only_outputs_are_compared() -> None:
    with torch.no_grad():
        assert list(call(nn.Linear(2, 1), (torch.ones(3, 2),)).values) == ["output"]


def test_a_module_may_write_into_its_input() -> None:
    given = torch.tensor([-1.0, 2.0])
    found = call(nn.ReLU(inplace=True), (given,))
    assert given.tolist() == [-1, 2]
    output = found.values["output"]
    assert isinstance(output, Tensor)
    assert output.tolist() == [0, 2]


def test_nested_outputs_are_named() -> None:
    @dataclass
    class Answer:
        logits: Tensor
        count: int

    class Nested(nn.Module):
        def forward(self, x: Tensor) -> object:
            return x, OrderedDict(rest=[x, None]), Answer(x, 3), object

    names = [name for name in call(Nested(), (torch.ones(1),)).values if name.startswith("output")]
    assert names == [
        *("output[0]", "output[1]['rest'][0]", "output[1]['rest'][1]"),
        *("output[2].logits", "output[2].count", "output[3]"),
    ]


def outcome(**values: object) -> Outcome:
    return Outcome(values)


@pytest.mark.parametrize(
    ("found", "expected", "wrong"),
    [
        (torch.ones(2), torch.ones(2), None),
        (torch.ones(2), torch.ones(3), ("shape (2,)", "shape (3,)")),
        (torch.ones(2), torch.ones(2).double(), ("torch.float32", "torch.float64")),
        (
            torch.tensor([1.0, 2.5, 3.0]),
            torch.tensor([1.0, 2.0, 3.25]),
            ("2.5", "2 (where it is worst; 2 of 3 values differ)"),
        ),
        (
            torch.tensor([0.0]),
            torch.tensor([-0.0]),
            ("other bits (a sign of zero, or another NaN)", "the same bits"),
        ),
        (torch.tensor([NAN]), torch.tensor([1.0]), ("nan", "1 (where it is worst; 1 of 1 values differ)")),
        (None, torch.ones(2), ("no gradient", "a tensor of shape (2,)")),
        (3, 4, ("3", "4")),
        (1, True, ("1", "True")),
        (NAN, NAN, None),
    ],
)
def test_what_differs_is_told(found: object, expected: object, wrong: tuple[str, str] | None) -> None:
    told = compare("B", outcome(output=found), outcome(output=expected))
    assert told == (() if wrong is None else (Wrong("B", "output", *wrong),))


def test_a_value_that_only_one_call_gave_is_wrong() -> None:
    assert compare("A", outcome(a=1, b=2), outcome(a=1)) == (Wrong("A", "b", "2", "nothing of that name"),)
    assert compare("A", outcome(a=1), outcome(a=1, b=2)) == (Wrong("A", "b", "nothing of that name", "2"),)


def test_an_exception_is_told_with_its_place() -> None:
    try:
        raise ValueError("first line\nsecond line")  # noqa: TRY301 - its traceback is what is looked at
    except ValueError as error:
        told = describe_error(error)
        (wrong,) = compare("A", Outcome({}, error), outcome(output=1))
    assert told.startswith("ValueError: first line (test_outcome.py:")
    assert wrong == Wrong("A", "exception", told, "no exception")
    assert describe_error(KeyboardInterrupt()) == "KeyboardInterrupt"
