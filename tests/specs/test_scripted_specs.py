"""TorchScript can express every shipped spec: it computes the same, also from a file. What it cannot is refused."""

from __future__ import annotations

import copy
import io
from typing import TYPE_CHECKING

import pytest
import torch

from rescli.spec.prepare import Request, prepare
from tests.specs.test_commands import SMALL, small_request
from torchresidual import Apply, StructureError

if TYPE_CHECKING:
    from pathlib import Path

    from torch import nn

# torch says of its own script, save and load that they will go; that they work is what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.(script|save|load)`:DeprecationWarning")

# A spec with what no shipped one has: an Apply that reads the Record of an enclosing block.
READS_OUT = """
inner = ResidualSequential(nn.Linear(8, 8), Apply(record_name="outer"))
block = ResidualSequential(Record(name="outer"), nn.Linear(8, 8), inner)
"""


def prepared(target: str, request: Request) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Return what a spec builds, in evaluation mode, and its input."""
    block = prepare(target, request)[-1]
    return block.module.eval(), block.inputs


def scripted(block: nn.Module) -> nn.Module:
    """Compile a copy: torch puts what it compiles into the containers of a model."""
    result: nn.Module = torch.jit.script(copy.deepcopy(block))
    return result


def assert_the_same(compiled: nn.Module, eager: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
    assert list(compiled.state_dict()) == list(eager.state_dict())
    expected = eager(*inputs)
    for _ in range(3):  # TorchScript watches two calls before it optimizes
        torch.testing.assert_close(compiled(*inputs), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("target", SMALL)
def test_torchscript_computes_what_a_shipped_spec_does(target: str) -> None:
    block, inputs = prepared(target, small_request(target))
    with torch.no_grad():
        compiled = scripted(block)
        assert_the_same(compiled, block, inputs)
        file = io.BytesIO()
        torch.jit.save(compiled, file)
        file.seek(0)
        loaded = torch.jit.load(file)  # type: ignore[no-untyped-call]  # torch leaves it so
        assert_the_same(loaded, block, inputs)


def test_a_spec_that_it_cannot_express_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "reads_out.py"
    path.write_text(READS_OUT, encoding="utf-8")
    block, _ = prepared(f"{path}:block", Request(inputs=(), settings={}, batch_size=None))
    with pytest.raises(StructureError, match=r"at '2\.1'.*reads a Record outside of its block"):
        scripted(block)


def test_the_comparison_finds_a_skip_that_weighs_a_little_more() -> None:
    block, inputs = prepared("basic", small_request("basic"))
    compiled = scripted(block)
    (apply,) = (module for module in block.modules() if isinstance(module, Apply))
    apply.alpha = 1.00001
    with pytest.raises(AssertionError, match="not close"):
        assert_the_same(compiled, block, inputs)
