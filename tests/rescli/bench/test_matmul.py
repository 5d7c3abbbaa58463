from __future__ import annotations

import pytest
import torch

from rescli.bench.clock import HostClock
from rescli.bench.matmul import matmul_rate


def test_the_rate_is_operations_over_the_shortest_time(monkeypatch: pytest.MonkeyPatch) -> None:
    multiplied: list[int] = []
    now_ns = 0

    def mm(a: torch.Tensor, _b: torch.Tensor) -> None:
        nonlocal now_ns
        multiplied.append(len(a))
        # A machine of 100 GFLOP/s that takes a tenth longer every other time.
        now_ns += int(2 * len(a) ** 3 / 100e9 * 1e9 * (1.1 if len(multiplied) % 2 else 1.0))

    monkeypatch.setattr(torch, "mm", mm)
    rate = matmul_rate(torch.device("cpu"), torch.float32, HostClock(lambda: now_ns))
    assert rate == pytest.approx(100e9, rel=1e-3)
    # Up to the first size that takes long enough: 2 * 512**3 are 2.7 ms of it, 2 * 1024**3 are 21 ms.
    assert sorted(set(multiplied)) == [256, 512, 1024]


def test_a_type_that_cannot_be_multiplied_has_no_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    def mm(_a: torch.Tensor, _b: torch.Tensor) -> None:
        raise RuntimeError('"addmm_impl" not implemented')

    monkeypatch.setattr(torch, "mm", mm)
    assert matmul_rate(torch.device("cpu"), torch.float32, HostClock()) is None


def test_a_clock_that_stands_still_gives_no_rate() -> None:
    assert matmul_rate(torch.device("cpu"), torch.float32, HostClock(lambda: 0)) is None
