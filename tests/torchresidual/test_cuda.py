"""On GPUs: the values of the CPU on one, and nn.DataParallel over all there are."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torch._utils import ExceptionWrapper

from tests.torchresidual.compiled_blocks import CASES, RECURRENT, Case
from tests.torchresidual.toys import Doubled, Unknown
from torchresidual import Apply, Record, ResidualSequential, UnsettledError

ALL = {**CASES, "recurrent": RECURRENT}
several = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")


def values_and_gradients(module: nn.Module, x: Tensor) -> list[Tensor]:
    x = x.clone().requires_grad_()
    out = module(x)
    tensors = [out, *torch.autograd.grad(out.square().sum(), [x, *module.parameters()])]
    return [tensor.detach().cpu() for tensor in tensors]


def double(case: Case, batch: int = 8) -> tuple[nn.Module, Tensor]:
    """In double precision, so that a GPU computes what the CPU does."""
    block, x = case.build(batch)
    return block.double(), x.double()


@pytest.mark.cuda
@pytest.mark.parametrize("case", ALL.values(), ids=ALL)
def test_a_gpu_gives_the_values_and_gradients_of_the_cpu(case: Case) -> None:
    block, x = double(case)
    if case is RECURRENT:
        block.train()  # cuDNN goes backward through a recurrent layer in training mode only
    expected = values_and_gradients(block, x)
    torch.testing.assert_close(values_and_gradients(block.cuda(), x.cuda()), expected)


@pytest.mark.cuda
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_autocast_on_a_gpu_keeps_the_values(case: Case) -> None:
    block, x = case.build()
    expected = block(x)
    block, x = block.cuda(), x.cuda()
    with torch.autocast("cuda", torch.float16):
        out = block(x)
    torch.testing.assert_close(out.float().cpu(), expected, rtol=2e-2, atol=2e-2)


@pytest.mark.cuda
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_data_parallel_trains_as_one_gpu_does(case: Case) -> None:
    block, x = double(case)
    block, x = block.cuda(), x.cuda()
    alone = copy.deepcopy(block)
    parallel = nn.DataParallel(block)
    optimizers = [torch.optim.SGD(module.parameters(), lr=0.1) for module in (parallel, alone)]
    for _ in range(3):
        for module, optimizer in zip((parallel, alone), optimizers, strict=True):
            optimizer.zero_grad()
            module(x).square().mean().backward()
            optimizer.step()
        torch.testing.assert_close(list(block.state_dict().values()), list(alone.state_dict().values()))


@pytest.mark.cuda
@several
def test_data_parallel_refuses_sizes_that_are_not_settled() -> None:
    block = ResidualSequential(Record(need_projection=True), Doubled(), Apply()).cuda()
    x = torch.randn(8, 4).cuda()
    with pytest.raises(
        Exception, match=r"materialize|uninitialized parameter"
    ):  # torch's copy may come first
        nn.DataParallel(block)(x)
    block.materialize(x)
    torch.testing.assert_close(nn.DataParallel(block)(x), block(x))


@pytest.mark.cuda
def test_new_projections_are_made_on_the_gpu_of_their_neighbours() -> None:
    for block in (
        ResidualSequential(Record(need_projection=True), nn.Linear(4, 8, device="cuda"), Apply("highway")),
        ResidualSequential(Record(need_projection=True), Unknown(nn.Linear(4, 8)), Apply("highway")).cuda(),
    ):
        assert block(torch.ones(2, 4, device="cuda")).shape == (2, 8)
        assert all(parameter.is_cuda for parameter in block.parameters())


def test_an_error_of_a_replica_arrives_as_the_error_it_was() -> None:
    """DataParallel carries errors of its threads to the caller by making them anew from a text."""
    block = ResidualSequential(Record(need_projection=True), Doubled(), Apply())
    block.materialize(torch.zeros(1, 4))
    unsettled = ResidualSequential(Record(need_projection=True), Unknown(nn.Linear(4, 8)), Apply())
    for layer in unsettled.modules():
        layer._is_replica = True  # type: ignore[assignment]  # as a replica has it
    try:
        unsettled(torch.zeros(1, 4))
    except UnsettledError:
        carried = ExceptionWrapper(where="in replica 1 on device 1")  # type: ignore[no-untyped-call]  # torch leaves it so
    with pytest.raises(UnsettledError, match=r"(?s)in replica 1.*call block\.materialize\(example\)"):
        carried.reraise()  # type: ignore[no-untyped-call]  # torch leaves it so
