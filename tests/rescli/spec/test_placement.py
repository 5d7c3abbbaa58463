"""Devices that are asked for, on machines that do and do not have them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from rescli.errors import HardwareError
from rescli.spec.placement import find_device, place


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: f"Model {index}")
    monkeypatch.setattr(torch.version, "cuda", "12.8")


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)


@pytest.mark.usefixtures("no_gpu")
def test_auto_is_the_cpu_where_there_is_nothing_else() -> None:
    assert find_device("auto") == torch.device("cpu")


@pytest.mark.usefixtures("two_gpus")
def test_auto_prefers_a_gpu() -> None:
    assert find_device("auto") == torch.device("cuda")


def test_auto_prefers_metal_to_the_cpu(monkeypatch: pytest.MonkeyPatch, no_gpu: None) -> None:  # noqa: ARG001
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert find_device("auto") == find_device("mps") == torch.device("mps")


@pytest.mark.usefixtures("two_gpus")
def test_a_gpu_that_is_there_is_taken() -> None:
    assert find_device("cuda:1") == torch.device("cuda:1")


@pytest.mark.usefixtures("two_gpus")
def test_a_number_too_high_is_answered_with_what_there_is() -> None:
    with pytest.raises(HardwareError) as caught:
        find_device("cuda:2")
    assert caught.value.message == (
        "--device cuda:2 is not there: what there is: cuda:0 (Model 0), cuda:1 (Model 1)"
    )


@pytest.mark.usefixtures("no_gpu")
@pytest.mark.parametrize(
    ("built_for", "said"),
    [
        ("12.8", "torch finds no GPU on this machine"),
        (None, f"torch {torch.__version__} was built without CUDA"),
    ],
)
def test_without_a_gpu_the_reason_is_named(
    monkeypatch: pytest.MonkeyPatch, built_for: str | None, said: str
) -> None:
    monkeypatch.setattr(torch.version, "cuda", built_for)
    monkeypatch.setattr(torch.version, "hip", None)
    with pytest.raises(HardwareError) as caught:
        find_device("cuda")
    assert caught.value.message == f"--device cuda is not there: {said}"


@pytest.mark.usefixtures("no_gpu")
def test_metal_is_named_where_it_is_missing() -> None:
    with pytest.raises(HardwareError, match="--device mps is not there: this is no Mac with Metal"):
        find_device("mps")


def test_a_block_that_is_where_it_should_be_is_not_copied() -> None:
    block = nn.Linear(2, 2)
    assert place(block, dtype=None, device=torch.device("cpu")) is block


def test_another_device_gets_a_copy() -> None:
    block = nn.Linear(2, 2)
    moved = place(block, dtype="float64", device=torch.device("meta"))
    assert moved.weight.is_meta
    assert moved.weight.dtype == torch.float64
    assert block.weight.device.type == "cpu"
    assert block.weight.dtype == torch.float32
