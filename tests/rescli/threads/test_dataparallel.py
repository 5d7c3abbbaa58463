from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from rescli.threads.copies import IncomparableError
from rescli.threads.dataparallel import gpus, run_parallel
from tests.rescli.threads.planted import LAYERS, check, example

TWO_CPUS = (torch.device("cpu"), torch.device("cpu"))


def block() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))


def test_a_module_that_gives_the_parts_together_is_right() -> None:
    found = run_parallel(block(), [example(5)], TWO_CPUS, 0, 3, lambda module: module)
    assert (found.runs, found.wrong, found.first) == (3, 0, "")


def test_a_wrong_part_is_named() -> None:
    class DropsLast(nn.Module):
        def __init__(self, module: nn.Module) -> None:
            super().__init__()
            self.module = module

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.module(x)
            return torch.cat([out[:-1], 0 * out[-1:]])

    found = run_parallel(block(), [example(5)], TWO_CPUS, 0, 3, DropsLast)
    assert (found.runs, found.wrong) == (3, 3)
    assert found.first == "output, gradient of 0.weight, gradient of 0.bias"


def test_a_forward_without_a_tensor_cannot_be_compared() -> None:
    class Nothing(nn.Module):
        def forward(self, x: Tensor) -> None:
            del x

    with pytest.raises(IncomparableError, match="forward gives no tensor"):
        run_parallel(Nothing(), [example(5)], TWO_CPUS, 0, 1, lambda module: module)


@pytest.mark.parametrize(("count", "there"), [(0, "there is no GPU"), (1, "there is one GPU")])
def test_without_two_gpus_it_is_skipped_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, count: int, there: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    found = check(block(), "dataparallel", LAYERS)
    assert (found.status, found.runs) == ("skip", 0)
    assert found.detail.startswith(f"{there}, with which nn.DataParallel calls the module itself")


@pytest.mark.cuda
def test_data_parallel_on_gpus_is_right() -> None:
    if len(gpus()) < 2:
        pytest.skip("one GPU")
    found = check(block(), "dataparallel", LAYERS)
    assert (found.status, found.wrong, found.threads) == ("pass", 0, len(gpus()))
