"""How blocks are measured, and the thread setting that holds meanwhile."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch

from rescli.bench.modes import Modes
from rescli.bench.result import PASSES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rescli.bench.peers import Peers
    from rescli.bench.result import PassName


@dataclass(frozen=True, slots=True)
class Settings:
    """How blocks are measured.

    Args:
        devices: Where they run in this process; more than one only with ``dp``, the output arrives on the first.
        passes: Which passes are wanted.
        batch_sizes: Sizes of the batch, each measured on its own; empty for the block's own.
        modes: How they are run: autocast, compiled, channels last, over several GPUs.
        threads: Threads for one operation; None leaves PyTorch's setting.
        min_time_s: Least sampling time of a target, if ``max_time_s`` allows.
        max_time_s: Most time that one target takes.
        seed: Decides dropout and the order of the turns.
        peers: The processes that measure together with ``ddp``; None for this one alone.
        group_devices: The devices of all processes on this machine, each once, to be named; empty for this one alone.
        is_interrupted: Says whether Ctrl-C was pressed and waits for all processes to notice.
    """

    devices: tuple[torch.device, ...] = (torch.device("cpu"),)
    passes: tuple[PassName, ...] = PASSES
    batch_sizes: tuple[int, ...] = ()
    modes: Modes = field(default_factory=Modes)
    threads: int | None = None
    min_time_s: float = 0.5
    max_time_s: float = 10.0
    seed: int = 0
    peers: Peers | None = None
    group_devices: tuple[str, ...] = ()
    is_interrupted: Callable[[], bool] = lambda: False

    @property
    def workers(self) -> int:
        """How many devices or processes share a batch."""
        return len(self.devices) if self.peers is None else self.peers.place.size

    @property
    def is_first(self) -> bool:
        """Whether this process reports, and measures what is measured in one process."""
        return self.peers is None or not self.peers.place.rank

    def alone(self) -> Settings:
        """Give the same settings for one device and one process."""
        modes = replace(self.modes, parallel="none")
        return replace(self, devices=self.devices[:1], modes=modes, peers=None, group_devices=())

    @property
    def on_cuda(self) -> bool:
        """Whether the blocks run on NVIDIA's or AMD's GPUs."""
        return self.devices[0].type == "cuda"

    @property
    def device_names(self) -> str:
        """The devices, joined by commas."""
        return ",".join(self.group_devices or map(str, self.devices))


@contextlib.contextmanager
def thread_setting(threads: int | None) -> Iterator[None]:
    """Let one operation use this many threads for a while.

    Args:
        threads: How many, or None to change nothing.
    """
    before = torch.get_num_threads()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
