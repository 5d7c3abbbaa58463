from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn

from rescli.bench.memory import CudaAllocator, MemoryUse, add_memory, measure_memory
from rescli.bench.passes import Inference, Training, private_copy

if TYPE_CHECKING:
    from rescli.bench.result import PassName


class PaperAllocator:
    """Memory statistics on paper."""

    def __init__(self) -> None:
        self.now = 1000
        self.peak = 9999
        self.log: list[str] = []

    def take(self, amount: int) -> None:
        self.now += amount
        self.peak = max(self.peak, self.now)

    def settle(self) -> None:
        self.log.append("settle")

    def allocated_bytes(self) -> int:
        return self.now

    def peak_bytes(self) -> int:
        return self.peak

    def reset_peak(self) -> None:
        self.peak = self.now


class Tape(nn.Module):
    """Takes 40 bytes for the graph and 60 more for a moment; its backward pass takes another 200."""

    def __init__(self, allocator: PaperAllocator, *, keeps: int = 0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))
        self.allocator = allocator
        self.keeps = keeps

    def forward(self, x: Tensor) -> Tensor:
        self.allocator.take(100 + self.keeps)
        self.allocator.take(-60)
        out = x * self.weight
        if out.requires_grad:
            out.register_hook(self.back)  # type: ignore[no-untyped-call] # torch has no types here
        return out

    def back(self, _gradient: Tensor) -> None:
        self.allocator.take(200)
        self.allocator.take(-240)


def test_each_pass_has_its_own_peak_beyond_what_was_there_before() -> None:
    allocator = PaperAllocator()
    found = measure_memory(Training(Tape(allocator), [torch.ones(1)]), allocator)
    assert {name: use.peak_bytes for name, use in found.items()} == {
        "forward": 100,
        "backward": 240,
        "step": 240,
    }
    assert {use.retained_bytes for use in found.values()} == {0}
    # Statistics of work that still runs would be too low.
    assert allocator.log == ["settle", "settle"]


def test_what_stays_alive_is_reported_apart_from_the_peak() -> None:
    allocator = PaperAllocator()
    found = measure_memory(Training(Tape(allocator, keeps=7), [torch.ones(1)]), allocator)
    assert {use.retained_bytes for use in found.values()} == {7}


def test_a_peak_of_earlier_work_is_not_counted() -> None:
    allocator = PaperAllocator()
    allocator.peak = 10**9
    found = measure_memory(Training(Tape(allocator), [torch.ones(1)]), allocator)
    assert found["step"].peak_bytes == 240


@pytest.mark.cuda
def test_a_gpus_allocator_gives_what_is_known_on_paper() -> None:
    device = torch.device("cuda:0")
    module, inputs = private_copy(nn.ReLU().to(device), [torch.ones(1024, 1024, device=device)])
    exercise = Inference(module, inputs)
    exercise.run(1, lambda: None)
    use = measure_memory(exercise, CudaAllocator([device]))["inference"]
    assert (use.peak_bytes, use.retained_bytes) == (4 * 2**20, 0)


def test_memory_of_several_gpus_is_added_up_and_each_peak_is_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    taken = {"cuda:0": 100, "cuda:1": 20}
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: log.append(f"wait for {device}"))
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: log.append(f"reset {device}"))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: taken[str(device)])
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 2 * taken[str(device)])
    allocator = CudaAllocator([torch.device("cuda:0"), torch.device("cuda:1")])
    assert (allocator.allocated_bytes(), allocator.peak_bytes()) == (120, 240)
    allocator.settle()
    allocator.reset_peak()
    assert log == ["wait for cuda:0", "wait for cuda:1", "reset cuda:0", "reset cuda:1"]


def test_a_pass_that_one_process_knows_nothing_of_is_not_added_up() -> None:
    whole: dict[PassName, MemoryUse] = {"forward": MemoryUse(5, 1), "step": MemoryUse(9, 1)}
    part: dict[PassName, MemoryUse] = {"step": MemoryUse(4, 0)}
    assert add_memory([whole, part]) == {"step": MemoryUse(13, 1)}
    assert add_memory([]) == {}
