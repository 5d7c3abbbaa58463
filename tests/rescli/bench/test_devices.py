from __future__ import annotations

import pytest
import torch

from rescli.bench.devices import Inventory, choose_device, choose_parallel_devices, parse_indices
from rescli.errors import CommandLineError, HardwareError

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


def test_data_parallel_without_gpus_says_what_the_cpu_can_do() -> None:
    for device in ("auto", "cpu", "cuda"):
        with pytest.raises(HardwareError) as caught:
            choose_parallel_devices(device, (), CPU_ONLY)
        assert "DataParallel spreads a batch over GPUs" in caught.value.message
        assert "rescli check-threads" in caught.value.hint


@pytest.mark.parametrize(
    ("device", "indices", "expected"),
    [
        ("auto", (), ["cuda:0", "cuda:1"]),
        ("cuda:1", (), ["cuda:1", "cuda:0"]),
        ("auto", (1,), ["cuda:1"]),
        ("cuda", (1, 0), ["cuda:1", "cuda:0"]),
    ],
)
def test_data_parallel_takes_all_gpus_or_those_that_are_named(
    device: str, indices: tuple[int, ...], expected: list[str]
) -> None:
    assert [str(found) for found in choose_parallel_devices(device, indices, TWO_GPUS)] == expected


def test_contradictions_are_refused() -> None:
    with pytest.raises(CommandLineError, match="--parallel dp --device cpu: DataParallel runs on GPUs only"):
        choose_parallel_devices("cpu", (), TWO_GPUS)
    with pytest.raises(CommandLineError, match="the output arrives on the first of --devices"):
        choose_parallel_devices("cuda:1", (0, 1), TWO_GPUS)
    with pytest.raises(HardwareError, match="there is no cuda:5"):
        choose_parallel_devices("auto", (0, 5), TWO_GPUS)


@pytest.mark.parametrize(
    ("text", "message"), [("0,,1", "expected numbers"), ("a", "expected numbers"), ("1,1", "named twice")]
)
def test_a_list_of_devices_has_one_form(text: str, message: str) -> None:
    with pytest.raises(CommandLineError, match=message):
        parse_indices(text)


def test_this_machine_has_a_cpu() -> None:
    assert Inventory.look().names()[0] == "cpu"
