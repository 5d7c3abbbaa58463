"""A server: an event loop hands requests to a thread pool, whose threads run one block."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn

from tests.torchresidual.toys import KeepsOnSelf, Meets
from torchresidual import Apply, Record, ResidualSequential, ShapeError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

TOGETHER, REQUESTS = 4, 32


def request(number: int) -> Tensor:
    """An input with a batch, a length and values that no other request has together."""
    return torch.full((1 + number % 3, 1 + number % 5, 4), float(number))


def meeting() -> Meets:
    """A layer that lets nobody on before so many requests are between Record and Apply."""
    return Meets(threading.Barrier(TOGETHER))


async def in_threads_of_the_loop(model: nn.Module, x: Tensor) -> Tensor:
    result: Tensor = await asyncio.to_thread(model, x)
    return result


def in_a_pool(pool: ThreadPoolExecutor) -> Callable[[nn.Module, Tensor], Awaitable[Tensor]]:
    return lambda model, x: asyncio.get_running_loop().run_in_executor(pool, model, x)


def answers(
    model: nn.Module, requests: list[Tensor], handle: Callable[[nn.Module, Tensor], Awaitable[Tensor]]
) -> list[Tensor | BaseException]:
    """Send all requests at once and wait for every answer, in inference mode as a server has it."""

    async def handled(x: Tensor) -> Tensor:
        return await handle(model, x)

    async def serve() -> list[Tensor | BaseException]:
        return await asyncio.gather(*(handled(x) for x in requests), return_exceptions=True)

    return asyncio.run(serve())


def wrong_answers(model: nn.Module, handle: Callable[[nn.Module, Tensor], Awaitable[Tensor]]) -> int:
    requests = [request(number) for number in range(REQUESTS)]
    results = answers(model, requests, handle)
    return sum(
        not (isinstance(result, Tensor) and torch.equal(result, 2 * x))
        for x, result in zip(requests, results, strict=True)
    )


@pytest.mark.parametrize("nested", [False, True])
def test_requests_of_different_shapes_in_a_pool_each_get_their_answer(nested: bool) -> None:
    inner = (
        ResidualSequential(meeting(), Apply(record_name="r")) if nested else nn.Sequential(meeting(), Apply())
    )
    block = ResidualSequential(Record(name="r"), inner)
    with ThreadPoolExecutor(TOGETHER) as pool:
        assert wrong_answers(block, in_a_pool(pool)) == 0


def test_requests_in_threads_of_the_loop_each_get_their_answer() -> None:
    assert wrong_answers(ResidualSequential(Record(), meeting(), Apply()), in_threads_of_the_loop) == 0


def test_the_same_method_finds_a_model_that_keeps_the_tensor_on_itself() -> None:
    with ThreadPoolExecutor(TOGETHER) as pool:
        assert wrong_answers(KeepsOnSelf(meeting()), in_a_pool(pool)) > 0


def test_a_request_that_does_not_fit_fails_alone() -> None:
    narrows = nn.Conv1d(4, 4, kernel_size=1, stride=2)
    block = ResidualSequential(Record(), narrows, Apply())
    fitting, longer = torch.ones(1, 4, 1), torch.ones(1, 4, 6)
    results = answers(block, [fitting, longer, fitting, longer], in_threads_of_the_loop)
    for result in results[::2]:
        assert isinstance(result, Tensor)
        torch.testing.assert_close(result, narrows(fitting) + fitting)
    for result in results[1::2]:
        assert isinstance(result, ShapeError)
        assert "recorded (1, 4, 6)" in str(result)
