from __future__ import annotations

import weakref

import pytest
import torch
from torch import nn

from rescli.bench.failure import NothingToDifferentiateError, describe_failure
from torchresidual import Apply, Record, ResidualSequential


def caught(action: object, *args: object) -> Exception:
    assert callable(action)
    try:
        action(*args)
    except Exception as error:  # noqa: BLE001 - the test wants whatever comes
        return error
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize("size", [1 << 50, 1 << 62])
def test_what_the_cpu_allocator_refuses_is_out_of_memory(size: int) -> None:
    found = describe_failure(caught(torch.empty, size))
    assert (found.code, found.error) == ("out-of-memory", "RuntimeError")


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 80.00 GiB."),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"),
        RuntimeError("Invalid buffer size: 80.00 GiB"),
    ],
)
def test_other_words_for_no_memory_are_known(error: Exception) -> None:
    assert describe_failure(error).code == "out-of-memory"


def test_other_errors_are_failures() -> None:
    found = describe_failure(caught(nn.Linear(2, 2), torch.ones(1, 3)))
    assert found.code == "failed"
    assert "mat1 and mat2 shapes cannot be multiplied" in found.message


def test_having_nothing_to_differentiate_is_a_kind_of_its_own() -> None:
    assert describe_failure(NothingToDifferentiateError("no output")).code == "no-gradient"


def test_the_trace_begins_in_the_users_own_code() -> None:
    class Mine(nn.Module):
        def forward(self, _x: torch.Tensor) -> torch.Tensor:
            raise ValueError("mine")

    error = caught(nn.Sequential(Mine()), torch.ones(1))
    # This test stands for the user, and its call is the outermost frame; without it the layer's own is.
    error.__traceback__ = error.__traceback__.tb_next if error.__traceback__ else None
    trace = describe_failure(error).trace
    assert trace.splitlines()[1].strip() == 'raise ValueError("mine")'
    assert "modules/module.py" not in trace
    assert "modules/module.py" in describe_failure(error).whole_trace


def test_a_failure_in_torch_alone_has_no_users_part() -> None:
    error = caught(nn.Linear(2, 2), torch.ones(1, 3))
    error.__traceback__ = error.__traceback__.tb_next if error.__traceback__ else None
    assert describe_failure(error).trace == ""


def test_a_forward_that_the_library_wrote_is_no_code_of_the_users() -> None:
    block = ResidualSequential(Record(), nn.Linear(2, 2), Apply("concat"), nn.Linear(2, 2))
    error = caught(block, torch.ones(1, 2))
    error.__traceback__ = error.__traceback__.tb_next if error.__traceback__ else None
    found = describe_failure(error)
    assert "written by torchresidual" in found.whole_trace
    assert found.trace == ""
    assert "3" in found.place


def test_a_description_holds_no_tensor_of_the_frames() -> None:
    class Holds(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            big = x + 1
            refs.append(weakref.ref(big))
            raise ValueError("holding")

    refs: list[weakref.ref[torch.Tensor]] = []
    found = describe_failure(caught(Holds(), torch.ones(1)))
    assert found.message == "holding"
    assert refs[0]() is None
