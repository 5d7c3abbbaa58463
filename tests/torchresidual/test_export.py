"""torch.export, ONNX and torch.fx write a block down; what they wrote gives the values of eager at any batch size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import fx

from tests.torchresidual.compiled_blocks import CASES, RECURRENT, Case
from tests.torchresidual.toys import Doubled
from torchresidual import Apply, Record, ResidualSequential, UnsettledError

if TYPE_CHECKING:
    from pathlib import Path

BATCHES = (1, 2, 5)


@pytest.mark.parametrize("strict", [False, True], ids=["non-strict", "strict"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_an_exported_program_takes_any_batch(case: Case, strict: bool) -> None:
    block, x = case.build()
    program = torch.export.export(
        block, (x,), dynamic_shapes={"x": {0: torch.export.Dim.DYNAMIC}}, strict=strict
    )
    for batch in BATCHES:
        x = case.input(batch)
        torch.testing.assert_close(program.module()(x), block(x))


@pytest.mark.filterwarnings("ignore")  # the exporter's own, of what it imports and of opsets
@pytest.mark.parametrize(
    "case",
    [CASES["projection"], CASES["convolutions"], CASES["nested"], CASES["attention"], RECURRENT],
    ids=["projection", "convolutions", "nested", "attention", "recurrent"],
)
def test_an_onnx_file_gives_the_values_of_eager(case: Case, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript", reason="pip install 'rescli[onnx]'")
    runtime = pytest.importorskip("onnxruntime", reason="pip install 'rescli[onnx]'")
    block, x = case.build()
    program = torch.onnx.export(
        block, (x,), dynamo=True, dynamic_shapes={"x": {0: torch.export.Dim.DYNAMIC}}, verbose=False
    )
    assert program is not None
    program.save(tmp_path / "block.onnx")
    session = runtime.InferenceSession(tmp_path / "block.onnx")
    for batch in BATCHES:
        x = case.input(batch)
        (out,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        torch.testing.assert_close(torch.from_numpy(out), block(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_torch_fx_traces_a_block(case: Case) -> None:
    block, x = case.build()
    graph = fx.symbolic_trace(block)
    torch.testing.assert_close(graph(x), block(x))
    x = case.input(5)
    torch.testing.assert_close(graph(x), block(x))


@pytest.mark.parametrize("operation", ["add", "highway"])
def test_sizes_are_not_settled_while_torch_fx_or_export_traces(operation: str) -> None:
    block = ResidualSequential(Record(need_projection=True), Doubled(), Apply(operation))
    x = torch.ones(2, 4)
    with pytest.raises(UnsettledError, match=r"while torch\.fx traces; call block\.materialize\(example\)"):
        fx.symbolic_trace(block)
    # Non-strict export looks at the parameters before the block runs: the words are torch's.
    with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter"):
        torch.export.export(block, (x,), strict=False)
    block.materialize(x)
    program = torch.export.export(block, (x,), strict=False)
    torch.testing.assert_close(program.module()(x), block(x))
