"""Random numbers that a seed decides, and that leave the global generators as they were."""

from __future__ import annotations

import contextlib
import random
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Run code whose weights come from a seed.

    Args:
        seed: Starts torch's generators and Python's own; all have their former state afterwards.
    """
    # Asking for the state of GPUs that nobody has used yet would initialise them.
    used = torch.cuda.is_initialized()  # type: ignore[no-untyped-call] # torch leaves it untyped
    gpus = list(range(torch.cuda.device_count())) if used else []
    state = random.getstate()
    with torch.random.fork_rng(devices=gpus):
        torch.manual_seed(seed)
        random.seed(seed)
        try:
            yield
        finally:
            random.setstate(state)
