"""Whose fault an exception is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

from rescli.errors import FileError, SpecError
from rescli.spec.blame import blame_user, users_code
from rescli.spec.prepare import PreparedBlock, Request, prepare

if TYPE_CHECKING:
    from tests.rescli.spec.conftest import WriteSpec


def block_of(target: str) -> PreparedBlock:
    (block,) = prepare(target, Request())
    return block


def run(block: PreparedBlock) -> SpecError:
    with pytest.raises(SpecError) as caught, blame_user(block.spec_file, "net.py:block could not be run"):
        block.module(*block.inputs)
    return caught.value


NET = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)
        def forward(self, x):
            {body}
    block = Net()
"""


def test_a_forward_that_raises_shows_the_specs_frames_only(write_spec: WriteSpec) -> None:
    error = run(block_of(write_spec(NET.format(body="return self.layer(x)[:, 9]"))))
    assert error.message == "net.py:block could not be run"
    lines = error.details.splitlines()
    assert "net.py" in lines[1]
    assert "in forward" in lines[1]
    assert "IndexError" in lines[-1]
    assert "test_blame.py" not in error.details


def test_whatever_a_spec_raises_is_the_users_also_what_is_no_exception(write_spec: WriteSpec) -> None:
    target = write_spec(NET.format(body="raise type('Odd', (BaseException,), {})('base')"))
    assert "Odd: base" in run(block_of(target)).details
    with (
        pytest.raises(SpecError, match=r"net\.py could not be loaded"),
        users_code(None, "net.py could not be loaded"),
    ):
        raise GeneratorExitLike


class GeneratorExitLike(BaseException):
    """Neither an Exception nor an exit."""


def test_a_forward_that_calls_sys_exit_is_an_error_of_the_spec(write_spec: WriteSpec) -> None:
    assert "SystemExit: 3" in run(block_of(write_spec(NET.format(body="raise SystemExit(3)")))).details


def test_a_layer_fed_wrongly_is_the_specs_fault_without_frames(write_spec: WriteSpec) -> None:
    block = block_of(write_spec("block = nn.Linear(2, 2)\nexample_inputs = (3, 5)\n"))
    error = run(block)
    assert error.details.strip() == "RuntimeError: mat1 and mat2 shapes cannot be multiplied (3x5 and 2x2)"


def test_what_is_raised_outside_blocks_and_specs_is_not_the_users() -> None:
    with pytest.raises(ZeroDivisionError), blame_user(None, "unused"):
        torch.zeros(1 // 0)


def test_a_hook_of_rescli_that_fails_is_not_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    from rescli.spec import blame

    monkeypatch.setattr(blame, "_OURS", __file__)  # as if this file were one of rescli's
    block = nn.Linear(2, 2)
    block.register_forward_pre_hook(lambda *_: vars(nn)["no such layer"])
    with pytest.raises(KeyError), blame_user(None, "unused"):
        block(torch.zeros(1, 2))


def test_errors_that_are_worded_already_pass_unchanged() -> None:
    error = FileError("no room")
    with pytest.raises(FileError) as caught, blame_user(None, "unused"), users_code(None, "unused"):
        raise error
    assert caught.value is error


def test_ctrl_c_is_nobodys_fault() -> None:
    with pytest.raises(KeyboardInterrupt), blame_user(None, "unused"), users_code(None, "unused"):
        raise KeyboardInterrupt
