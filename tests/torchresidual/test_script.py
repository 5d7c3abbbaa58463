"""What TorchScript can express, it runs as eager does; the rest is refused when the sibling is made."""

from __future__ import annotations

import copy
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn

from torchresidual import (
    Apply,
    LearnableAlpha,
    Record,
    RecurrentWrapper,
    ResidualSequential,
    ResidualSequentialScript,
    StructureError,
    UnsettledError,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# torch says of its own script, save and load that they will go; that they work is what is tested here.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit.(script|save|load)`:DeprecationWarning"),
]


def linear(operation: str, **keywords: Any) -> ResidualSequential:  # noqa: ANN401 - what Apply takes
    return ResidualSequential(Record(), nn.Linear(8, 8), Apply(operation, **keywords))


BLOCKS: dict[str, tuple[Callable[[], ResidualSequential], tuple[int, ...]]] = {
    **{name: (partial(linear, name), (4, 8)) for name in ("add", "concat", "multiply", "gated", "highway")},
    "float alpha and scale": (lambda: linear("gated", alpha=0.3, scale=2.0), (4, 8)),
    "learned alpha": (lambda: linear("add", alpha=LearnableAlpha(0.3)), (4, 8)),
    "learned alpha in log space": (lambda: linear("multiply", alpha=LearnableAlpha(0.01, 1e-4, 1.0)), (4, 8)),
    "tensor alpha, parameter scale": (
        lambda: linear("add", alpha=torch.rand(8), scale=nn.Parameter(torch.rand(8))),
        (4, 8),
    ),
    "projection": (
        lambda: ResidualSequential(Record(True), nn.Linear(8, 16), nn.ReLU(inplace=True), Apply()),
        (4, 8),
    ),
    "strided, cropped, concat, highway along channels": (
        lambda: ResidualSequential(
            Record(True, "a"),
            nn.Conv1d(4, 8, 2, stride=2),
            nn.Sequential(Record(name="m"), nn.Conv1d(8, 8, 1)),
            Apply("concat", "m"),
            nn.Conv1d(16, 8, 1),
            Apply("highway", "a"),
        ),
        (2, 4, 15),
    ),
    "nested": (lambda: ResidualSequential(Record(), linear("add"), nn.Linear(8, 8), Apply()), (4, 8)),
    "self-attention": (
        lambda: ResidualSequential(Record(), nn.MultiheadAttention(8, 2, batch_first=True), Apply()),
        (2, 5, 8),
    ),
    "attention with time first": (
        lambda: ResidualSequential(Record(), nn.MultiheadAttention(8, 2), Apply()),
        (5, 2, 8),
    ),
    "recurrent": (
        lambda: ResidualSequential(Record(), RecurrentWrapper(nn.LSTM(8, 8, batch_first=True)), Apply()),
        (2, 5, 8),
    ),
    "in place behind a Record": (
        lambda: ResidualSequential(Record(), nn.ReLU(inplace=True), Apply()),
        (4, 8),
    ),
    "given projection": (
        lambda: ResidualSequential(
            Record(), nn.Linear(8, 6), Apply(projection=nn.Sequential(nn.Linear(8, 6), nn.LayerNorm(6)))
        ),
        (4, 8),
    ),
}


@pytest.fixture(params=BLOCKS)
def block_and_input(request: pytest.FixtureRequest) -> tuple[ResidualSequential, Tensor]:
    torch.manual_seed(0)
    make, shape = BLOCKS[request.param]
    return make(), torch.randn(shape)


def gradients(module: nn.Module, x: Tensor) -> list[Tensor]:
    x = x.clone().requires_grad_()
    return list(torch.autograd.grad(module(x).square().sum(), [x, *module.parameters()]))


def test_the_sibling_equals_the_block_in_value_gradient_and_keys(
    block_and_input: tuple[ResidualSequential, Tensor],
) -> None:
    block, x = block_and_input
    sibling = ResidualSequentialScript(block)
    torch.testing.assert_close(sibling(x), block(x), rtol=1e-6, atol=1e-6)
    assert list(sibling.state_dict()) == list(block.state_dict())
    assert [id(p) for p in sibling.parameters()] == [id(p) for p in block.parameters()]
    torch.testing.assert_close(gradients(sibling, x), gradients(block, x))


def test_compiled_saved_and_loaded_it_is_the_same_still(
    block_and_input: tuple[ResidualSequential, Tensor], tmp_path: Path
) -> None:
    block, x = block_and_input
    compiled = torch.jit.script(ResidualSequentialScript(block))
    torch.testing.assert_close(compiled(x), block(x), rtol=1e-6, atol=1e-6)
    torch.jit.save(compiled, tmp_path / "block.pt")
    loaded = torch.jit.load(tmp_path / "block.pt")  # type: ignore[no-untyped-call]  # torch leaves it so
    torch.testing.assert_close(loaded(x), block(x), rtol=1e-6, atol=1e-6)
    assert list(loaded.state_dict()) == list(block.state_dict())
    block.load_state_dict(loaded.state_dict())


def test_a_saved_file_runs_without_this_package(tmp_path: Path) -> None:
    block = linear("gated", alpha=LearnableAlpha(0.3))
    x = torch.randn(4, 8)
    torch.jit.save(torch.jit.script(block), tmp_path / "block.pt")
    torch.save((x, block(x).detach()), tmp_path / "expected.pt")
    program = (
        "import sys, torch\n"
        "x, expected = torch.load('expected.pt')\n"
        "torch.testing.assert_close(torch.jit.load('block.pt')(x), expected, rtol=1e-6, atol=1e-6)\n"
        "assert 'torchresidual' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_scripting_the_eager_class_takes_the_sibling() -> None:
    block = linear("add")
    compiled = torch.jit.script(block)
    x = torch.randn(4, 8)
    torch.testing.assert_close(compiled(x), block(x))
    assert type(block) is ResidualSequential


def test_blocks_inside_a_model_are_each_compiled_in_their_place() -> None:
    # torch swaps them one by one and goes by id(): with siblings that let go of their blocks nearly every try failed.
    for _ in range(5):
        model = nn.Sequential(
            *(
                ResidualSequential(
                    Record(), nn.Linear(4, 4), ResidualSequential(Record(), nn.Tanh(), Apply()), Apply()
                )
                for _ in range(12)
            )
        )
        x = torch.randn(2, 4)
        expected = model(x)
        scripted = torch.jit.script(copy.deepcopy(model))
        torch.testing.assert_close(scripted(x), expected)
        assert list(scripted.state_dict()) == list(model.state_dict())


def test_torch_leaves_siblings_in_a_model_that_it_compiled() -> None:
    """torch's own doing: it writes what it prepared into the containers; the model computes the same still."""
    model = nn.Sequential(nn.Linear(8, 8), linear("gated", alpha=0.3))
    x = torch.randn(4, 8)
    expected = model(x)
    torch.jit.script(model)
    assert type(model[1]) is ResidualSequentialScript
    torch.testing.assert_close(model(x), expected)


def test_layers_alone_make_a_sibling_too() -> None:
    layer = nn.Linear(8, 8)
    x = torch.randn(4, 8)
    torch.testing.assert_close(ResidualSequentialScript(Record(), layer, Apply())(x), layer(x) + x)


def test_a_loaded_state_brings_its_own_bounds() -> None:
    wide = linear("add", alpha=LearnableAlpha(3.0, 0.0, 10.0))
    sibling = ResidualSequentialScript(linear("add", alpha=LearnableAlpha(0.3)))
    sibling.load_state_dict(wide.state_dict())
    x = torch.randn(4, 8)
    torch.testing.assert_close(sibling(x), wide(x), rtol=1e-6, atol=1e-6)


def test_x_is_not_grown_in_torchscript_either() -> None:
    compiled = torch.jit.script(ResidualSequentialScript(Record(), nn.Linear(8, 1), Apply()))
    with pytest.raises(RuntimeError, match="expand"):
        compiled(torch.zeros(4, 8))


class Doubling(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, x], -1)


class Holding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.record = Record(name="a")

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.record(x))


@pytest.mark.parametrize(
    ("layers", "error", "message"),
    [
        ([nn.LSTM(8, 8)], StructureError, "LSTM at '0'.*returns a tuple; put it into a RecurrentWrapper"),
        (
            [RecurrentWrapper(nn.LSTM(8, 8), return_hidden=True)],
            StructureError,
            "RecurrentWrapper at '0'.*with return_hidden it returns a tuple",
        ),
        (
            [Record(name="a"), ResidualSequential(nn.Linear(8, 8), Apply(record_name="a"))],
            StructureError,
            "record_name='a'.* at '1.1'.*reads a Record outside of its block",
        ),
        ([Holding(), nn.Linear(8, 8)], StructureError, "Holding at '0'.*inside a layer of your own"),
        (
            [nn.Sequential(nn.MultiheadAttention(8, 2))],
            StructureError,
            "Sequential at '0'.*attention at '0.0' with x alone",
        ),
        (
            [Record(need_projection=True), Doubling(), Apply()],
            UnsettledError,
            r"at '2': its sizes are not settled yet; call block.materialize",
        ),
    ],
    ids=["tuple", "hidden", "enclosing record", "record in a layer", "misplaced attention", "unsettled"],
)
def test_what_torchscript_cannot_express_is_refused_by_name(
    layers: list[nn.Module], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ResidualSequentialScript(*layers)
