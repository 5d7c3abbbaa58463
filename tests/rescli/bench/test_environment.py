from __future__ import annotations

import os
from typing import TYPE_CHECKING

import torch

from rescli import __version__
from rescli.bench.environment import cpu_model, describe_environment, governor, gpu_driver, usable_cores

if TYPE_CHECKING:
    from pathlib import Path


def test_the_environment_names_versions_and_threads() -> None:
    found = describe_environment()
    assert (found.rescli, found.torch, found.threads) == (
        __version__,
        torch.__version__,
        torch.get_num_threads(),
    )
    assert found.cpu
    assert 1 <= found.cores <= (os.cpu_count() or 1)
    assert len(found.gpus) == (torch.cuda.device_count() if torch.cuda.is_available() else 0)


def test_the_cpu_is_named_as_linux_names_it(tmp_path: Path) -> None:
    facts = tmp_path / "cpuinfo"
    facts.write_text("processor\t: 0\nmodel name\t: Example CPU @ 2.00GHz\nflags\t: fpu\n")
    assert cpu_model(facts) == "Example CPU @ 2.00GHz"


def test_the_cpu_has_some_name_where_there_is_no_such_file(tmp_path: Path) -> None:
    assert cpu_model(tmp_path / "none")


def test_the_driver_is_read_from_what_the_kernel_module_says(tmp_path: Path) -> None:
    facts = tmp_path / "version"
    facts.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 2023\n")
    assert gpu_driver(facts) == "535.104.05"
    assert gpu_driver(tmp_path / "none") is None


def test_only_cores_that_may_be_used_count() -> None:
    if hasattr(os, "sched_getaffinity"):
        assert usable_cores() == len(os.sched_getaffinity(0))


def test_the_governor_is_read_where_linux_tells_it(tmp_path: Path) -> None:
    facts = tmp_path / "scaling_governor"
    facts.write_text("performance\n")
    assert governor(facts) == "performance"
    assert governor(tmp_path / "none") is None
