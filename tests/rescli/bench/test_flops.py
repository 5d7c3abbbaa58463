from __future__ import annotations

import pytest
import torch
from torch import nn

from rescli.bench.flops import Counted, backward_flops, count_flops
from rescli.bench.passes import Training, private_copy
from rescli.spec.prepare import PreparedBlock

X = torch.ones(8, 64)


def block_of(module: nn.Module, *inputs: torch.Tensor) -> PreparedBlock:
    return PreparedBlock("block", "spec.py:block", module, inputs, "option", None)


def training_of(module: nn.Module, *inputs: torch.Tensor) -> Training:
    return Training(*private_copy(module, inputs))


def test_the_backward_pass_of_a_first_layer_takes_as_much_as_its_forward_pass() -> None:
    module = nn.Linear(64, 32)
    one = 2 * 8 * 64 * 32
    # The input takes no gradient, so only that of the weight is worked out.
    assert count_flops(block_of(module, X), training_of(module, X)).flops == {
        "inference": one,
        "forward": one,
        "backward": one,
        "step": 2 * one,
    }


def test_a_later_layer_takes_twice_as_much_backward() -> None:
    module = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64))
    one = 2 * 8 * 64 * 64
    found = count_flops(block_of(module, X), training_of(module, X)).flops
    assert (found["forward"], found["backward"]) == (2 * one, 3 * one)


def test_a_counter_that_does_not_see_the_forward_pass_is_not_believed_about_the_backward_pass() -> None:
    # On the CPU the fused kernel of the LSTM has no formula there.
    module, x = nn.LSTM(16, 16, batch_first=True), torch.ones(2, 5, 16)
    found = count_flops(block_of(module, x), training_of(module, x))
    assert found.flops["forward"] > 0
    assert set(found.flops) == {"inference", "forward"}
    assert found.why_not == "PyTorch's counter does not see every operation of the block"


@pytest.mark.parametrize(("forward", "expected"), [(2 * 8 * 64 * 32, 2 * 8 * 64 * 32), (7, None)])
def test_the_two_counts_must_agree(forward: int, expected: int | None) -> None:
    assert backward_flops(training_of(nn.Linear(64, 32), X), forward) == expected


def test_nothing_is_claimed_of_a_block_with_an_operation_that_is_not_counted() -> None:
    class Inverse(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.inverse(x @ x.T + torch.eye(8))

    found = count_flops(block_of(nn.Sequential(Inverse(), Inverse()), X[:, :8]), None)
    assert found == Counted(why_not="there is no formula for what 0 and 1 more compute")


def test_without_a_training_exercise_only_the_forward_pass_is_counted() -> None:
    found = count_flops(block_of(nn.Linear(64, 32), X), None)
    assert (set(found.flops), found.why_not) == ({"inference", "forward"}, "")
