"""Alphas that hardly learn, have no effect, or are pulled by weight decay; each beside one that is right."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.rescli.graph.finding import Case, found, linear, messages
from torchresidual import Apply, LearnableAlpha, Record, ResidualSequential

DECAY = ("alpha-weight-decay", "note", "2.alpha")


def weighed(alpha: float | LearnableAlpha, operation: str = "add") -> nn.Module:
    return ResidualSequential(Record(name="a"), linear(), Apply(operation, "a", alpha))


def with_raw(raw: float) -> LearnableAlpha:
    alpha = LearnableAlpha(0.5)
    with torch.no_grad():
        alpha.param.fill_(raw)
    return alpha


def frozen(alpha: LearnableAlpha) -> LearnableAlpha:
    alpha.param.requires_grad_(False)
    return alpha


CASES = {
    "a start at a bound": Case(
        lambda: weighed(LearnableAlpha(1.0)),
        lambda: weighed(frozen(LearnableAlpha(1.0))),
        [("alpha-saturated", "warning", "2.alpha"), DECAY],
    ),
    "just beyond 0.99": Case(
        lambda: weighed(with_raw(2.66)),  # tanh 0.9903
        lambda: weighed(frozen(with_raw(2.66))),
        [("alpha-saturated", "warning", "2.alpha"), DECAY],
    ),
    "no gradient at all": Case(
        lambda: weighed(with_raw(-20.0)),
        lambda: weighed(frozen(with_raw(-20.0))),
        [("alpha-out-of-reach", "warning", "2.alpha"), DECAY],
    ),
    "not a number": Case(
        lambda: weighed(with_raw(float("nan"))),
        lambda: weighed(0.5),
        [("alpha-out-of-reach", "warning", "2.alpha"), DECAY],
    ),
    "an alpha that concat does not use": Case(
        lambda: weighed(0.5, "concat"), lambda: weighed(0.5), [("alpha-ignored", "warning", "2")]
    ),
    "an alpha that highway does not use": Case(
        lambda: weighed(LearnableAlpha(0.5), "highway"),
        lambda: weighed(1.0, "highway"),
        [("alpha-ignored", "warning", "2"), DECAY],
    ),
    "weight decay": Case(lambda: weighed(LearnableAlpha(0.5)), lambda: weighed(0.5), [DECAY]),
}


@pytest.mark.parametrize("name", CASES)
def test_a_fault_is_found_and_its_twin_is_not(name: str) -> None:
    CASES[name].check()


def test_at_0_99_an_alpha_is_not_saturated_yet() -> None:
    assert found(weighed(with_raw(2.64))) == [DECAY]  # tanh 0.98986


def test_a_block_without_values_is_not_judged_by_them() -> None:
    with torch.device("meta"):
        block = weighed(LearnableAlpha(1.0))
    assert found(block) == [DECAY]


def test_messages_say_how_far_it_has_gone_and_where_it_learns() -> None:
    (message, hint), _ = messages(weighed(LearnableAlpha(1.0)))
    assert message == (
        "LearnableAlpha is at 0.9995, next to its bound, where |tanh| is 0.999: its gradient is 0.2% of the "
        "largest"
    )
    assert hint == "start it between 0.005 and 0.995, or widen its bounds"
    (message, hint), _ = messages(weighed(with_raw(20.0)))
    assert message == "training cannot move the LearnableAlpha at 1: its gradient is 0"
    assert hint == "reset_parameters() restores its start; between 0.005 and 0.995 it learns"
    (message, _), _ = messages(weighed(with_raw(float("nan"))))
    assert message.endswith("at nan: its raw parameter is not a number")


def test_the_range_in_which_an_alpha_learns_holds_in_log_space() -> None:
    alpha = LearnableAlpha(1.0, 1e-4, 1.0)
    assert alpha.use_log_space
    (_, hint), _ = messages(weighed(alpha))
    assert hint == "start it between 0.0001047 and 0.955, or widen its bounds"
    assert found(weighed(LearnableAlpha(0.95, 1e-4, 1.0))) == [DECAY]


def test_weight_decay_names_each_parameter_once_as_the_block_does() -> None:
    shared = LearnableAlpha(0.5)
    block = nn.Sequential(weighed(shared), weighed(shared), weighed(LearnableAlpha(0.5)))
    assert messages(block) == [
        (
            "weight decay would pull 2 LearnableAlphas to the middle of the range: "  # noqa: ISC004
            "0.2.alpha.param, 2.2.alpha.param",
            "give these parameters a group of the optimizer with weight_decay=0",
        )
    ]
    assert {"0.2.alpha.param", "2.2.alpha.param"} <= dict(block.named_parameters()).keys()
    assert found(block) == [("alpha-weight-decay", "note", "")]
