"""One block, eight threads that run freely, every output compared bit for bit.

The long run is made by hand: ``pytest -m soak -s tests/torchresidual/test_soak.py``; ``SOAK_CALLS`` changes its number
of calls.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn

from torchresidual import Apply, LearnableAlpha, Record, RecurrentWrapper, ResidualSequential

if TYPE_CHECKING:
    from collections.abc import Iterator

THREADS = 8
WIDTH = 8


@pytest.fixture(autouse=True)
def eager_threads() -> Iterator[None]:
    """Change threads as often as the interpreter can, and keep each operation in one thread."""
    interval, threads = sys.getswitchinterval(), torch.get_num_threads()
    sys.setswitchinterval(1e-6)
    torch.set_num_threads(1)
    yield
    sys.setswitchinterval(interval)
    torch.set_num_threads(threads)


def make() -> ResidualSequential:
    torch.manual_seed(0)
    return ResidualSequential(
        Record(need_projection=True, name="in"),
        RecurrentWrapper(nn.GRU(WIDTH, 12, batch_first=True)),
        Apply(record_name="in"),
        Record(name="wide"),
        ResidualSequential(Record(), nn.Linear(12, 12), Apply("highway")),
        Apply("gated", "wide", alpha=LearnableAlpha(0.3)),
        Record(name="end"),
        nn.Linear(12, 12),
        Apply("multiply", "end", scale=0.5),
    ).eval()


def wrong_calls(block: nn.Module, calls: int) -> tuple[int, int]:
    """Call a block from all threads, each with a shape of its own; count the calls and the wrong ones."""
    inputs = [torch.randn(1 + index % 3, 2 + index, WIDTH) for index in range(THREADS)]
    made, wrong = [0] * THREADS, [0] * THREADS
    barrier = threading.Barrier(THREADS)
    with torch.no_grad():
        expected = [block(x) for x in inputs]

    def work(index: int, x: Tensor, right: Tensor) -> None:
        torch.set_num_threads(1)
        barrier.wait()
        with torch.no_grad():
            for _ in range(calls // THREADS):
                try:
                    wrong[index] += not torch.equal(block(x), right)
                except Exception:  # noqa: BLE001 - whatever a race raises is a wrong call
                    wrong[index] += 1
                made[index] += 1

    threads = [
        threading.Thread(target=work, args=(index, x, right))
        for index, (x, right) in enumerate(zip(inputs, expected, strict=True))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(made), sum(wrong)


def test_a_thousand_calls_are_all_right() -> None:
    assert wrong_calls(make(), 1000) == (1000, 0)


def test_a_block_that_keeps_its_input_is_found_by_the_same_calls() -> None:
    class Keeps(nn.Module):
        kept: Tensor

        def forward(self, x: Tensor) -> Tensor:
            self.kept = x
            time.sleep(0)  # another thread may run
            return x.sigmoid() + self.kept

    calls, wrong = wrong_calls(Keeps(), 4000)
    assert calls == 4000
    assert wrong > 0


@pytest.mark.soak
def test_a_million_calls_are_all_right() -> None:
    calls = int(os.environ.get("SOAK_CALLS", "1000000"))
    start = time.monotonic()
    assert wrong_calls(make(), calls) == (calls, 0)
    seconds = time.monotonic() - start
    sys.stdout.write(f"\n{calls:,} calls from {THREADS} threads, 0 wrong, {seconds:.0f} s\n")
