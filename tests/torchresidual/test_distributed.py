"""Two processes, each with half of the batch, train a block as one process does with all of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from torch import distributed

if not (distributed.is_available() and distributed.is_gloo_available()):
    pytest.skip("torch was built without gloo", allow_module_level=True)

from tests.torchresidual.two_processes import DDP, FSDP, FSDP_WORKS_ON_GLOO, PROCESSES

ROOT = Path(__file__).parents[2]

needs_fsdp = pytest.mark.skipif(
    not FSDP_WORKS_ON_GLOO, reason="before torch 2.9 fully_shard on gloo fails or computes wrong numbers"
)
Reports = list[dict[str, str]]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Reports:
    """What each process says of each check; they are started once."""
    folder = tmp_path_factory.mktemp("two_processes")
    command = [sys.executable, "-m", "tests.torchresidual.two_processes"]
    processes = [
        subprocess.Popen(
            [*command, str(rank), str(folder)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(PROCESSES)
    ]
    printed = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * PROCESSES, "\n".join(printed)
    return [
        json.loads((folder / f"report{rank}.json").read_text(encoding="utf-8")) for rank in range(PROCESSES)
    ]


def assert_passed(name: str, reports: Reports) -> None:
    for rank, report in enumerate(reports):
        assert not report[name], f"in process {rank}:\n{report[name]}"


def assert_found(name: str, message: str, reports: Reports) -> None:
    assert [message in report[name] for report in reports] == [True] * PROCESSES, reports[0][name]


@pytest.mark.parametrize("name", DDP)
def test_ddp_has_the_gradients_and_parameters_of_one_process(name: str, reports: Reports) -> None:
    assert_passed(name, reports)


def test_ddp_gives_every_process_the_start_of_the_first(reports: Reports) -> None:
    assert_passed("ddp_starts_as_rank_zero", reports)


def test_the_comparison_finds_gradients_that_nobody_averaged(reports: Reports) -> None:
    assert_found("ddp_not_averaged", "not close", reports)


@needs_fsdp
@pytest.mark.parametrize("name", FSDP)
def test_fsdp_has_the_gradients_and_parameters_of_one_process(name: str, reports: Reports) -> None:
    assert_passed(name, reports)


@needs_fsdp
def test_fsdp_from_meta_starts_as_constructed_and_trains_as_one_process(reports: Reports) -> None:
    assert_passed("fsdp_from_meta", reports)


@needs_fsdp
def test_the_comparison_finds_starts_that_nobody_restored_under_fsdp(reports: Reports) -> None:
    assert_found("fsdp_not_restored", "AssertionError", reports)


@needs_fsdp
def test_fsdp_takes_over_a_state_of_one_process_and_gives_it_back(reports: Reports) -> None:
    assert_passed("fsdp_loads_a_whole_state", reports)


@needs_fsdp
def test_fsdp_in_half_precision_computes_as_a_block_in_half_precision(reports: Reports) -> None:
    assert_passed("fsdp_in_half_precision", reports)


@needs_fsdp
def test_fsdp_refuses_sizes_that_are_not_settled(reports: Reports) -> None:
    assert_passed("fsdp_not_settled", reports)
