from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from rescli.threads.copies import IncomparableError
from rescli.threads.places import layers_that_run, some_of
from torchresidual import Apply, Record, ResidualSequential


def test_layers_are_named_in_the_order_in_which_they_begin_each_once() -> None:
    shared = nn.ReLU()
    block = ResidualSequential(Record(), nn.Sequential(nn.Linear(4, 4), shared), shared, Apply())
    assert layers_that_run(block, [torch.ones(2, 4)]) == ("0", "1", "1.0", "1.1", "3")


def test_a_layer_that_does_not_run_is_not_named() -> None:
    class Half(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.idle = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.used(x)
            return out

    assert layers_that_run(Half(), [torch.ones(2, 4)]) == ("used",)


def test_a_forward_without_layers_has_no_place() -> None:
    with pytest.raises(IncomparableError, match="forward calls no layer"):
        layers_that_run(nn.ReLU(), [torch.ones(2)])


@pytest.mark.parametrize(
    ("most", "chosen"), [(1, ("d",)), (2, ("b", "d")), (3, ("a", "b", "d")), (9, ("a", "b", "c", "d"))]
)
def test_some_are_spread_and_end_with_the_last(most: int, chosen: tuple[str, ...]) -> None:
    assert some_of(("a", "b", "c", "d"), most) == chosen
