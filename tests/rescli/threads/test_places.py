from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from rescli.threads.arrange import share
from rescli.threads.copies import IncomparableError
from rescli.threads.footing import Subject, points_of, run_alone
from rescli.threads.places import layers_that_run, some_of
from tests.rescli.threads.planted import RunsLayersInThreads, example
from torchresidual import Apply, Record, ResidualSequential


def places(module: nn.Module, x: Tensor) -> tuple[str, ...]:
    subject = Subject(module, share, ((x,),))
    return layers_that_run(points_of(run_alone(subject, module, 0)))


def test_layers_are_named_in_the_order_in_which_they_begin_each_once() -> None:
    shared = nn.ReLU()
    block = ResidualSequential(Record(), nn.Sequential(nn.Linear(4, 4), shared), shared, Apply())
    assert places(block, torch.ones(2, 4)) == ("0", "1", "1.0", "1.1", "3")


def test_a_layer_that_does_not_run_is_not_named() -> None:
    class Half(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.idle = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.used(x)
            return out

    assert places(Half(), torch.ones(2, 4)) == ("used",)


@pytest.mark.parametrize("module", [nn.ReLU(), RunsLayersInThreads()])
def test_a_thread_that_runs_no_layer_has_no_place(module: nn.Module) -> None:
    with pytest.raises(IncomparableError, match=r"^no layer runs in the thread that calls forward: "):
        places(module, example(3))


@pytest.mark.parametrize(
    ("most", "chosen"), [(1, ("d",)), (2, ("b", "d")), (3, ("a", "b", "d")), (9, ("a", "b", "c", "d"))]
)
def test_some_are_spread_and_end_with_the_last(most: int, chosen: tuple[str, ...]) -> None:
    assert some_of(("a", "b", "c", "d"), most) == chosen
