from __future__ import annotations

import pytest

from rescli.bench.devices import choose_parallel_devices, choose_process_devices, parse_indices
from rescli.errors import CommandLineError, HardwareError
from rescli.spec.device import Inventory

CPU_ONLY = Inventory("2.13.0+cpu", cuda_built=False, gpus=0, mps=False)
TWO_GPUS = Inventory("2.13.0+cu128", cuda_built=True, gpus=2, mps=False)


def test_data_parallel_without_gpus_says_what_the_cpu_can_do() -> None:
    for device in ("auto", "cpu", "cuda"):
        with pytest.raises(HardwareError) as caught:
            choose_parallel_devices(device, (), CPU_ONLY)
        assert "DataParallel spreads a batch over GPUs" in caught.value.message
        assert "--parallel ddp" in caught.value.hint
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
    ("device", "indices", "processes", "expected"),
    [
        ("auto", (), None, ["cuda:0", "cuda:1"]),
        ("cuda", (), 1, ["cuda:0"]),
        ("auto", (1,), None, ["cuda:1"]),
        ("cpu", (), None, ["cpu", "cpu"]),
        ("cpu", (), 3, ["cpu"] * 3),
    ],
)
def test_each_process_has_a_gpu_of_its_own_or_shares_the_cpu(
    device: str, indices: tuple[int, ...], processes: int | None, expected: list[str]
) -> None:
    found = choose_process_devices(device, indices, processes, TWO_GPUS)
    assert [str(one) for one in found] == expected


def test_processes_run_on_the_cpu_where_there_is_no_gpu_to_share_a_batch_with() -> None:
    apple = Inventory("2.13.0", cuda_built=False, gpus=0, mps=True)
    for inventory in (CPU_ONLY, apple):
        assert [str(one) for one in choose_process_devices("auto", (), 2, inventory)] == ["cpu", "cpu"]


def test_processes_without_a_gpu_each_are_refused() -> None:
    with pytest.raises(HardwareError, match="--processes 3: each needs a GPU of its own, and there are 2"):
        choose_process_devices("auto", (), 3, TWO_GPUS)
    with pytest.raises(HardwareError, match="--devices 0,7: there is no cuda:7"):
        choose_process_devices("cuda", (0, 7), None, TWO_GPUS)
    with pytest.raises(HardwareError, match="--device cuda: this PyTorch"):
        choose_process_devices("cuda", (), 2, CPU_ONLY)
    with pytest.raises(HardwareError, match="--devices 0,1: these are numbers of GPUs"):
        choose_process_devices("cpu", (0, 1), None, TWO_GPUS)
    for device in ("cuda:1", "mps"):
        with pytest.raises(CommandLineError, match=f"--parallel ddp --device {device}: each process has"):
            choose_process_devices(device, (), 2, TWO_GPUS)


@pytest.mark.parametrize(
    ("text", "message"), [("0,,1", "expected numbers"), ("a", "expected numbers"), ("1,1", "named twice")]
)
def test_a_list_of_devices_has_one_form(text: str, message: str) -> None:
    with pytest.raises(CommandLineError, match=message):
        parse_indices(text)
