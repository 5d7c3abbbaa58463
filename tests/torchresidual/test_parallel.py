from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from tests.torchresidual.toys import Doubled, Unknown, projection_of
from torchresidual import Apply, LearnableAlpha, Record, ResidualSequential

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(not distributed.is_available(), reason="torch was built without distributed")


@pytest.fixture
def _one_process(tmp_path: Path) -> Iterator[None]:
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def two_steps(block: nn.Module) -> None:
    parallel = DistributedDataParallel(block)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        parallel(torch.randn(3, 4)).square().sum().backward()
        optimizer.step()


@pytest.mark.usefixtures("_one_process")
@pytest.mark.parametrize(
    "block",
    [
        lambda: ResidualSequential(Record(need_projection=True), nn.Linear(4, 4), Apply()),
        lambda: ResidualSequential(Record(need_projection=True), nn.Linear(4, 6), Apply("highway")),
        lambda: ResidualSequential(Record(), nn.Linear(4, 4), Apply("gated", alpha=LearnableAlpha(0.5))),
        lambda: ResidualSequential(Record(True), Doubled(), Apply("highway")).materialize(torch.zeros(1, 4)),
        lambda: ResidualSequential(Record(True), Unknown(nn.Linear(4, 4)), Apply()).materialize(
            torch.zeros(1, 4)
        ),
    ],
)
def test_every_parameter_gets_its_gradient_in_two_steps(block: object) -> None:
    assert callable(block)
    made = block()
    before = [parameter.detach().clone() for parameter in made.parameters()]
    two_steps(made)
    assert all(not torch.equal(a, b) for a, b in zip(before, made.parameters(), strict=True))


@pytest.mark.usefixtures("_one_process")
def test_the_same_method_finds_a_projection_that_is_not_used() -> None:
    class Unused(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.used(x)
            return result

    with pytest.raises(RuntimeError, match="finished reduction"):
        two_steps(Unused())


@pytest.mark.usefixtures("_one_process")
def test_sizes_that_nobody_knows_are_refused_when_it_is_wrapped() -> None:
    block = ResidualSequential(Record(need_projection=True), Doubled(), Apply())
    with pytest.raises(RuntimeError, match="uninitialized parameters"):
        DistributedDataParallel(block)


def test_equal_sizes_leave_nothing_to_wait_for() -> None:
    block = ResidualSequential(Record(need_projection=True), nn.Linear(4, 4), Apply())
    assert projection_of(block) is None
    assert [name for name, _ in block.named_parameters()] == ["1.weight", "1.bias"]
