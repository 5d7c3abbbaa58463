"""What a check changes for the whole process, and puts back."""

from __future__ import annotations

import contextlib
import random
import sys
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def quiet_process() -> Iterator[None]:
    """Let each operation run in its caller's thread only, and leave the random generators as they were.

    How an operation is split among worker threads may change the last bit of its result; the checks compare
    bits.
    """
    threads = torch.get_num_threads()
    torch_state, python_state = torch.get_rng_state(), random.getstate()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_rng_state(torch_state)
        random.setstate(python_state)


@contextlib.contextmanager
def as_in_caller(*, grads: bool) -> Iterator[None]:
    """Give a new thread what is kept for each thread apart, as nn.DataParallel does for its own.

    Args:
        grads: Whether gradients are recorded in the thread that starts this one.
    """
    # What quiet_process set holds for the thread that called it: the matrix products of a new thread would
    # be split again, until something in it happens to ask PyTorch for the number.
    torch.set_num_threads(1)
    with torch.set_grad_enabled(grads):
        yield


@contextlib.contextmanager
def eager_switching(interval_s: float = 1e-6) -> Iterator[None]:
    """Make the interpreter change threads as often as it can.

    Args:
        interval_s: Seconds after which a running thread is asked to let another one run.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(interval_s)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
