from __future__ import annotations

import pytest
import torch

from rescli.errors import CommandLineError, HardwareError
from rescli.spec.device import Inventory, choose_device

CPU_ONLY = Inventory("2.13.0+cpu", cuda_built=False, gpus=0, mps=False)
NO_GPU = Inventory("2.13.0+cu128", cuda_built=True, gpus=0, mps=False)
TWO_GPUS = Inventory("2.13.0+cu128", cuda_built=True, gpus=2, mps=False)
APPLE = Inventory("2.13.0", cuda_built=False, gpus=0, mps=True)


@pytest.mark.parametrize(
    ("text", "inventory", "expected"),
    [
        ("auto", CPU_ONLY, "cpu"),
        ("auto", TWO_GPUS, "cuda:0"),
        ("auto", APPLE, "mps"),
        ("cpu", TWO_GPUS, "cpu"),
        ("cuda", TWO_GPUS, "cuda:0"),
        ("cuda:1", TWO_GPUS, "cuda:1"),
        ("mps", APPLE, "mps"),
    ],
)
def test_a_device_is_found(text: str, inventory: Inventory, expected: str) -> None:
    assert choose_device(text, inventory) == torch.device(expected)


@pytest.mark.parametrize(
    ("text", "inventory", "message", "hint"),
    [
        ("cuda", CPU_ONLY, "this PyTorch (2.13.0+cpu) is built without CUDA", "what is there: --device cpu"),
        ("cuda:0", NO_GPU, "PyTorch 2.13.0+cu128 sees no GPU on this machine", "what is there: --device cpu"),
        (
            "cuda:2",
            TWO_GPUS,
            "PyTorch 2.13.0+cu128 sees no GPU of that number on this machine",
            "what is there: --device cpu, --device cuda:0 and --device cuda:1",
        ),
        (
            "mps",
            CPU_ONLY,
            "PyTorch 2.13.0+cpu sees no Apple GPU on this machine",
            "what is there: --device cpu",
        ),
    ],
)
def test_a_device_that_is_missing_is_told_with_what_is_there(
    text: str, inventory: Inventory, message: str, hint: str
) -> None:
    with pytest.raises(HardwareError) as caught:
        choose_device(text, inventory)
    assert caught.value.message == f"--device {text}: {message}"
    assert caught.value.hint == hint


@pytest.mark.parametrize("text", ["gpu", "cuda:", "cuda:x", "cpu:0", ""])
def test_a_text_that_names_no_device_is_a_wrong_command_line(text: str) -> None:
    with pytest.raises(CommandLineError, match="this is no device that rescli knows"):
        choose_device(text, TWO_GPUS)


def test_this_machine_has_a_cpu() -> None:
    assert Inventory.look().names()[0] == "cpu"


def test_a_machine_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert Inventory.look() == Inventory(torch.__version__, cuda_built=True, gpus=2, mps=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert Inventory.look().gpus == 0


@pytest.mark.parametrize(
    ("cuda", "hip", "built"), [(None, None, False), (None, "6.2", True), ("12.8", None, True)]
)
def test_a_build_for_amd_drives_gpus_too(
    cuda: str | None, hip: str | None, built: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.version, "hip", hip)
    assert Inventory.look().cuda_built is built
