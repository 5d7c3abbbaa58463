from __future__ import annotations

import threading

import torch
from torch import Tensor, nn

from tests.torchresidual.toys import Calls, InOrder, in_threads
from torchresidual import Apply, Record, ResidualSequential
from torchresidual.frame import current_frame


def test_there_is_no_frame_outside_of_a_forward() -> None:
    assert current_frame() is None
    ResidualSequential(InOrder(Record()), Apply())(torch.ones(1))
    assert current_frame() is None


def test_a_frame_belongs_to_the_thread_of_its_forward() -> None:
    inside, may_go = threading.Event(), threading.Event()

    def wait(_: Tensor) -> None:
        inside.set()
        may_go.wait(timeout=60)

    block = ResidualSequential(InOrder(Record()), Calls(wait), Apply())

    def run() -> bool:
        return torch.equal(block(torch.ones(1)), torch.full((1,), 2.0))

    def look() -> bool:
        inside.wait(timeout=60)
        seen = current_frame()
        may_go.set()
        return seen is None

    assert in_threads([run, look]) == [True, True]


def test_a_block_called_inside_a_layer_gives_the_frame_back() -> None:
    helper = ResidualSequential(Record(name="r"), nn.Hardtanh(), Apply(record_name="r"))
    frames: list[object] = []

    class Uses(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            frames.append(current_frame())
            result: Tensor = helper(x)
            frames.append(current_frame())
            return result

    block = ResidualSequential(InOrder(Record(name="r")), Uses(), Apply(record_name="r"))
    assert torch.equal(block(torch.tensor([3.0])), torch.tensor([7.0]))
    assert frames[0] is frames[1] is not None


def test_two_layers_of_the_users_own_meet_in_one_frame() -> None:
    block = ResidualSequential(
        InOrder(Record(name="a"), nn.Hardtanh()), InOrder(nn.Identity(), Apply(record_name="a"))
    )
    assert torch.equal(block(torch.tensor([3.0])), torch.tensor([4.0]))
