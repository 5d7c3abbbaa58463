from __future__ import annotations

import pytest
import torch
from torch import nn

from rescli.bench.match import match_blocks
from rescli.errors import CommandLineError
from rescli.spec.prepare import PreparedBlock


def block(name: str, file: str = "a.py") -> PreparedBlock:
    return PreparedBlock(name, f"{file}:{name}", nn.Identity(), (torch.ones(1),), "option", None)


def test_without_another_target_a_block_is_alone_or_with_its_plain_form() -> None:
    (alone,) = match_blocks([block("x")], "none", [])
    (plain,) = match_blocks([block("x")], "plain", [])
    assert (alone.plain, plain.plain, alone.versus, plain.versus) == (False, True, None, None)


def test_one_block_is_compared_with_all_and_several_by_name() -> None:
    one = block("other", "b.py")
    assert [match.versus for match in match_blocks([block("x"), block("y")], "b.py", [one])] == [one, one]
    several = [block("y", "b.py"), block("x", "b.py")]
    found = match_blocks([block("x"), block("y")], "b.py", several)
    assert [match.versus and match.versus.target for match in found] == ["b.py:x", "b.py:y"]


def test_a_name_that_is_missing_is_told_with_those_that_are_there() -> None:
    with pytest.raises(CommandLineError, match=r"--versus b.py has the blocks y, z, none of them named x"):
        match_blocks([block("x")], "b.py", [block("y", "b.py"), block("z", "b.py")])
