"""Modules with a planted fault, harmless look-alikes, and a block to check them as."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from rescli.threads.limits import Limits
from rescli.threads.scenarios import check_block
from rescli.threads.schedule import parse_schedule

if TYPE_CHECKING:
    from pathlib import Path

    from rescli.threads.result import ThreadsResult

WIDTH = 4


def example(batch_size: int) -> Tensor:
    return torch.randn(batch_size, WIDTH, generator=torch.Generator().manual_seed(batch_size))


@dataclass(frozen=True)
class PaperBlock:
    """A block as the spec room would prepare it."""

    module: nn.Module
    inputs: tuple[Tensor, ...] = field(default_factory=lambda: (example(3),))
    name: str = "block"
    target: str = "net.py:block"
    batch_dim: int = 0
    spec_file: Path | None = None

    def resized(self, batch_size: int) -> tuple[Tensor, ...]:
        return tuple(torch.cat([value] * batch_size)[:batch_size] for value in self.inputs)


# Layers alone, and nothing beyond the bound: what can be counted by hand.
LAYERS = Limits(random_schedules=0, lines=False, max_time_s=60)
# Everything, however busy the machine is.
ALL = Limits(max_time_s=60)


def check(module: nn.Module, scenario: str, limits: Limits = LAYERS) -> ThreadsResult:
    """Try one scenario with a module."""
    (result,) = check_block(PaperBlock(module), (scenario,), limits)
    return result


def replay(module: nn.Module, text: str, limits: Limits = LAYERS) -> ThreadsResult:
    """Run one schedule again."""
    scenario, schedule = parse_schedule(text)
    (result,) = check_block(PaperBlock(module), (scenario,), limits, replay=schedule)
    return result


class TwoLayers(nn.Module):
    """Two layers, as all of these have."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.second = nn.Linear(WIDTH, WIDTH)


class KeepsInput(TwoLayers):
    """Fault: the input lies on self while the layers run."""

    def forward(self, x: Tensor) -> Tensor:
        self.kept = x
        branch: Tensor = self.second(self.first(x))
        return branch + self.kept


class KeepsMean(TwoLayers):
    """The same fault, seen in the values alone: whatever the batch size, the shapes fit."""

    def forward(self, x: Tensor) -> Tensor:
        self.kept = x.mean(0)
        branch: Tensor = self.second(self.first(x))
        return branch + self.kept


class KeepsByName(TwoLayers):
    """Fault: a dict on self, keyed by name; the shallow copies that replicas are share it."""

    def __init__(self) -> None:
        super().__init__()
        self.store: dict[str, Tensor] = {}

    def forward(self, x: Tensor) -> Tensor:
        self.store["input"] = x
        branch: Tensor = self.second(self.first(x))
        return branch + self.store["input"]


class CachesShape(TwoLayers):
    """Fault: a mask for the shape seen last, read again after a layer has run."""

    def __init__(self) -> None:
        super().__init__()
        self.shape: torch.Size | None = None
        self.mask = torch.empty(0)

    def forward(self, x: Tensor) -> Tensor:
        if self.shape != x.shape:
            self.shape = x.shape
            self.mask = torch.ones(x.shape)
        hidden: Tensor = self.first(x)
        out: Tensor = self.second(hidden * self.mask)
        return out


class ScalesGradient(TwoLayers):
    """Fault seen in the gradients alone: what backward needs is kept on self after forward."""

    def forward(self, x: Tensor) -> Tensor:
        self.scale = float(x.shape[0])
        out: Tensor = self.second(self.first(x))
        if out.requires_grad:
            out.register_hook(lambda gradient: gradient * self.scale)  # type: ignore[no-untyped-call]
        return out


class RunsLayersInThreads(TwoLayers):
    """Harmless: its layers run in a thread that it starts itself."""

    def forward(self, x: Tensor) -> Tensor:
        found: list[Tensor] = []
        helper = threading.Thread(target=lambda: found.append(self.second(self.first(x))))
        helper.start()
        helper.join()
        return found[0]


class Counts(TwoLayers):
    """Harmless: a counter that no output depends on."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        out: Tensor = self.second(self.first(x))
        return out


class Locks(TwoLayers):
    """Harmless: the input lies on self, under a lock that is held while it matters."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()

    def forward(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.first(x)
        with self.lock:
            self.kept = x
            branch: Tensor = self.second(hidden)
            return branch + self.kept


class Deadlocks(TwoLayers):
    """Two locks, taken in an order that depends on the batch size."""

    def __init__(self) -> None:
        super().__init__()
        self.one = threading.Lock()
        self.other = threading.Lock()

    def forward(self, x: Tensor) -> Tensor:
        locks = (self.one, self.other) if x.shape[0] % 2 else (self.other, self.one)
        with locks[0]:
            hidden: Tensor = self.first(x)
            with locks[1]:
                out: Tensor = self.second(hidden)
                return out


class RemembersCalls(TwoLayers):
    """Fault without any race: the second call gives something else than the first."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        out: Tensor = self.second(self.first(x))
        return out * self.calls


class Uncopyable(TwoLayers):
    """Refuses deepcopy: a generator on self."""

    def __init__(self) -> None:
        super().__init__()
        self.source = iter_of_ones()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.second(self.first(x))
        return out


def iter_of_ones() -> object:
    return (1 for _ in range(3))


class MakesLayer(nn.Module):
    """Fault: a layer is made in the first forward, without a lock."""

    def __init__(self) -> None:
        super().__init__()
        self.made: nn.Linear | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.made is None:
            self.made = nn.Linear(x.shape[-1], WIDTH)
        out: Tensor = self.made(x)
        return out


class MakesLayerUnderLock(nn.Module):
    """Harmless: the same under a lock, looked at again inside."""

    def __init__(self) -> None:
        super().__init__()
        self.made: nn.Linear | None = None
        self.lock = threading.Lock()

    def forward(self, x: Tensor) -> Tensor:
        if self.made is None:
            with self.lock:
                if self.made is None:
                    self.made = nn.Linear(x.shape[-1], WIDTH)
        out: Tensor = self.made(x)
        return out


class HooksInForward(TwoLayers):
    """Fault: forward registers a hook for itself, which other threads meet too."""

    def forward(self, x: Tensor) -> Tensor:
        shift = x.mean()
        handle = self.second.register_forward_hook(lambda _module, _inputs, output: output + shift)
        out: Tensor = self.second(self.first(x))
        handle.remove()
        return out


class KeepsOuter(TwoLayers):
    """Fault of calls within calls: it gives back what it found, so that one thread alone is always right."""

    kept: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        before, self.kept = self.kept, x.mean(0)
        branch: Tensor = self.second(self.first(x))
        out = branch + self.kept
        self.kept = before
        return out


def plain() -> nn.Module:
    """Harmless: layers one after the other, in eval mode."""
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(), nn.Linear(4, 4)).eval()


HARMLESS = (plain, Counts, Locks, MakesLayerUnderLock)
