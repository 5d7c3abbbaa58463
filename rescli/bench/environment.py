"""What a run ran on: versions, processor, threads and GPUs."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

import torch

from rescli import __version__
from rescli.bench.result import Environment, Gpu

_CPU_FACTS = Path("/proc/cpuinfo")
_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
_NVIDIA_FACTS = Path("/proc/driver/nvidia/version")


def describe_environment() -> Environment:
    """Describe this machine and this process, with the thread settings of the moment."""
    return Environment(
        rescli=__version__,
        python=platform.python_version(),
        torch=torch.__version__,
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        cpu=cpu_model(),
        cores=usable_cores(),
        threads=torch.get_num_threads(),
        interop_threads=torch.get_num_interop_threads(),
        gpus=_gpus(),
        cuda=torch.version.cuda,
        driver=gpu_driver(),
        governor=governor(),
    )


def cpu_model(facts: Path = _CPU_FACTS) -> str:
    """Name the processor as the system does.

    Args:
        facts: Linux's description of the processors; elsewhere there is none, and Python's own word is taken.
    """
    match = re.search(r"^model name\s*:\s*(.+)$", _read(facts), re.MULTILINE)
    return match[1].strip() if match else platform.processor() or platform.machine()


def gpu_driver(facts: Path = _NVIDIA_FACTS) -> str | None:
    """Give the version of the GPU driver, or None where it cannot be read.

    Args:
        facts: What the NVIDIA kernel module says about itself.
    """
    # "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 ..."
    match = re.search(r"\b(\d{3,}\.\d+(?:\.\d+)*)\b", _read(facts))
    return match[1] if match else None


def governor(facts: Path = _GOVERNOR) -> str | None:
    """Name what chooses the clock rate (``performance``, ``powersave``), or None where it cannot be read.

    Args:
        facts: What Linux says of the first core.
    """
    return _read(facts).strip() or None


def usable_cores() -> int:
    """Give the number of logical cores that this process may use, which can be fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _gpus() -> tuple[Gpu, ...]:
    if not torch.cuda.is_available():
        return ()
    found = (torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count()))
    return tuple(Gpu(index, gpu.name, gpu.total_memory) for index, gpu in enumerate(found))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
