from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from rescli.bench.headroom import available_bytes, check_headroom

if TYPE_CHECKING:
    from pathlib import Path

EIGHT = [torch.zeros(8, 64)]  # 2,048 bytes


def test_a_batch_that_cannot_fit_is_refused_before_it_is_allocated() -> None:
    with pytest.raises(MemoryError, match=r"the input alone takes 50\.0 KiB, and 50\.0 KiB are available"):
        check_headroom(EIGHT, 8, 100, 51_199)


def test_a_batch_that_may_fit_is_tried() -> None:
    check_headroom(EIGHT, 8, 100, 51_200)


def test_nothing_is_refused_where_the_memory_is_not_known() -> None:
    check_headroom(EIGHT, 8, 10**15, None)


def test_the_smaller_of_machine_and_container_counts(tmp_path: Path) -> None:
    memory = tmp_path / "meminfo"
    memory.write_text("MemTotal: 64 kB\nMemAvailable:      48 kB\n")
    assert available_bytes(memory, tmp_path) == 48 * 1024
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("1000\n")
    assert available_bytes(memory, tmp_path) == 48 * 1024
    (tmp_path / "memory.max").write_text("3000\n")
    assert available_bytes(memory, tmp_path) == 2000


def test_the_memory_is_unknown_where_the_system_does_not_say(tmp_path: Path) -> None:
    assert available_bytes(tmp_path / "none", tmp_path) is None
