"""The forward that is written out as source does what running by the plan does, and notices every edit."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import given
from torch import Tensor, nn

from tests.torchresidual.properties import DETERMINISTIC
from tests.torchresidual.random_blocks import FEATURES, blocks
from torchresidual import (
    Apply,
    LearnableAlpha,
    Record,
    ResidualError,
    ResidualSequential,
    ShapeError,
    UnknownRecordError,
)
from torchresidual.frame import _context
from torchresidual.running import run
from torchresidual.written import FILE_NAME, write_forward

if TYPE_CHECKING:
    from collections.abc import Callable


pytestmark = [
    # Random blocks contain Applies without a Record: that they are refused is part of what is tested.
    pytest.mark.filterwarnings("ignore:the Apply at"),
]


class AddsInPlace(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.add_(1)


class Doubles(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2


class Pair(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x * 2, x


def is_written(block: ResidualSequential) -> bool:
    return write_forward(block.plan, block._modules) is not None


WRITTEN: dict[str, Callable[[], ResidualSequential]] = {
    **{
        f"{operation} {alpha}": lambda operation=operation, alpha=alpha: ResidualSequential(  # type: ignore[misc]
            Record(),
            nn.Linear(4, 4),
            Apply(operation, alpha=LearnableAlpha(0.3) if alpha == "learned" else alpha),
        )
        for operation in ("add", "multiply", "gated", "concat", "highway")
        for alpha in (1.0, 0.3, "learned", 2)
    },
    "projected": lambda: ResidualSequential(Record(need_projection=True), nn.Linear(4, 6), Apply()),
    "given": lambda: ResidualSequential(Record(), nn.Linear(4, 6), Apply(projection=nn.Linear(4, 6))),
    "projected highway": lambda: ResidualSequential(
        Record(need_projection=True), nn.Linear(4, 6), Apply("highway")
    ),
    "scaled": lambda: ResidualSequential(Record(), nn.Linear(4, 4), Apply(scale=0.5)),
    "container": lambda: ResidualSequential(
        nn.Sequential(Record(name="r"), nn.Linear(4, 4)), nn.ReLU(), Apply(record_name="r")
    ),
    "in place": lambda: ResidualSequential(
        nn.Linear(4, 4), Record(), nn.ReLU(inplace=True), nn.Linear(4, 4), Apply()
    ),
    "own layer": lambda: ResidualSequential(nn.Linear(4, 4), Record(), Doubles(), Apply()),
    "extras": lambda: ResidualSequential(Record(), Pair(), nn.Sequential(Pair()), Apply()),
    "attention": lambda: ResidualSequential(
        Record(), nn.MultiheadAttention(4, 2, batch_first=True), Apply(), nn.LayerNorm(4)
    ),
    "nested": lambda: ResidualSequential(
        Record(), ResidualSequential(Record(), nn.Linear(4, 4), Apply()), Apply()
    ),
    "same layer twice": lambda: ResidualSequential(
        Record(), *[nn.Linear(4, 4)] * 2, Apply(), Record(), nn.Tanh(), Apply()
    ),
    "no layer": ResidualSequential,
    "many": lambda: ResidualSequential(
        *(module for _ in range(12) for module in (Record(), nn.Linear(4, 4), Apply()))
    ),
}


@pytest.mark.parametrize("kind", WRITTEN)
@pytest.mark.parametrize("mode", ["grad", "inference"])
def test_a_written_forward_gives_what_the_plan_gives(kind: str, mode: str) -> None:
    torch.manual_seed(0)
    block = WRITTEN[kind]().eval()
    assert is_written(block)
    x = torch.randn(2, 3, 4)
    with torch.inference_mode(mode == "inference"):
        got, wanted = block(x), run(block, block.plan, x)
    torch.testing.assert_close(got, wanted)
    assert block._plan_cache.written is not None


@DETERMINISTIC
@given(blocks())
def test_a_random_block_gives_the_same_by_its_plan(block: ResidualSequential) -> None:
    block.insert(0, nn.Softplus())
    x = torch.linspace(-1.5, 1.5, 2 * FEATURES, dtype=torch.float64).reshape(2, FEATURES)
    try:
        got = block(x)
    except UnknownRecordError:
        with pytest.raises(UnknownRecordError):
            run(block, block.plan, x)
        return
    torch.testing.assert_close(got, run(block, block.plan, x), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.complex64])
@pytest.mark.parametrize("operation", ["add", "multiply", "gated", "concat"])
@pytest.mark.parametrize("alpha", [1.0, 0.3])  # a power of two would round alike in every type
def test_dtypes_are_those_of_the_formula(dtype: torch.dtype, operation: str, alpha: float) -> None:
    class Halves(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.half() if x.is_floating_point() else x + x

    block = ResidualSequential(Record(), Halves(), Apply(operation, alpha=alpha, dim=-1))
    x = torch.tensor([[0, 1], [1, 1]]).to(dtype)
    got, wanted = block(x), run(block, block.plan, x)
    assert got.dtype is wanted.dtype
    assert torch.equal(got, wanted)


class _Searches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Apply(record_name="r")

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.inner(x)
        return result


@pytest.mark.parametrize(
    "block",
    [
        ResidualSequential(Record(name="r"), nn.Linear(4, 4), _Searches()),
        ResidualSequential(Record(name="r"), ResidualSequential(nn.Linear(4, 4), Apply(record_name="r"))),
        ResidualSequential(*(module for _ in range(80) for module in (Record(), nn.Tanh(), Apply()))),
    ],
    ids=["read by name", "read from inside", "long"],
)
def test_what_is_known_at_run_time_only_or_is_long_runs_by_its_plan(block: ResidualSequential) -> None:
    assert not is_written(block)
    assert block(torch.ones(2, 4)).shape == (2, 4)


def test_the_source_reads_like_a_forward_written_by_hand() -> None:
    block = ResidualSequential(Record(), nn.Linear(4, 4), Apply())
    names = write_forward(block.plan, block._modules)
    assert names is not None
    code = names.__code__
    assert code.co_filename == FILE_NAME
    # What a small block pays for: no loop, no list of places, no lookup of a layer by name.
    assert {"l1", "a2"} <= set(code.co_freevars)
    # Nor a note for others of what is running, where no other can look.
    assert not {"steps", "context"} & set(code.co_freevars)


def _fail(*_: object) -> None:
    raise ValueError("told to")


@pytest.mark.parametrize("path", ["1", "2", "3", "5.1", "6"])
@pytest.mark.parametrize("torchs", [True, False], ids=["torch's layers", "layers of the user's own"])
def test_an_error_is_said_to_be_at_the_layer_that_raised_it(path: str, torchs: bool) -> None:
    block = ResidualSequential(
        Record(),
        nn.Tanh(),
        nn.Sequential(nn.Tanh(), nn.ReLU()),
        nn.ReLU(inplace=True),
        Apply(),
        nn.Sequential(Record(), nn.Tanh()),
        nn.Linear(2, 2) if torchs else AddsInPlace(),
        Apply(),
    )
    layer = block.get_submodule(path)
    layer.register_forward_pre_hook(_fail)
    assert is_written(block)
    with pytest.raises(ValueError, match="told to") as caught:
        block(torch.ones(3, 2))
    notes = [f"in a ResidualSequential, at '{path}': {type(layer).__name__}"]
    assert not hasattr(caught.value, "add_note") or caught.value.__notes__ == notes


@pytest.mark.parametrize("nested", [False, True])
def test_a_layer_of_the_users_own_still_finds_its_block(nested: bool) -> None:
    seen: list[object] = []

    class Looks(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            seen.append(_context.current_sequential)
            return x

    layer = nn.Sequential(nn.Tanh(), Looks()) if nested else Looks()
    block = ResidualSequential(Record(), ResidualSequential(Record(), nn.Tanh(), Apply()), layer, Apply())
    assert is_written(block)
    block(torch.ones(2))
    assert seen == [block]


def _project(apply: Any) -> None:  # noqa: ANN401 - a submodule, which torch types as Tensor | Module
    apply.projection_given = True
    apply.projection_layer = Doubles()


EDITS: dict[str, Callable[[ResidualSequential], Any]] = {
    "child": lambda block: block._modules.update({"1": Doubles()}),
    "renamed": lambda block: block._modules.update(other=block._modules.pop("1")),
    "one more": lambda block: block._modules.update(last=Doubles()),
    "nested": lambda block: block[0]._modules.update({"0": Doubles()}),
    "nested append": lambda block: block.get_submodule("0").append(Doubles()),  # type: ignore[operator]
    "alpha": lambda block: setattr(block[2], "alpha", 3.0),
    "scale": lambda block: setattr(block[2], "scale", 3.0),
    "operation": lambda block: setattr(block[2], "operation", "multiply"),
    "projection": lambda block: _project(block.get_submodule("2")),
    "in place": lambda block: setattr(block[1], "inplace", True),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_is_seen_by_the_next_call(edit: str) -> None:
    block = ResidualSequential(nn.Sequential(nn.Tanh(), Record(name="r")), nn.ReLU(), Apply(record_name="r"))
    x = torch.tensor([[-1.0, 2.0]])
    block(x)
    assert block._plan_cache.written is not None
    EDITS[edit](block)
    torch.testing.assert_close(block(x), ResidualSequential(*block._modules.values())(x))


@pytest.mark.parametrize(
    "where", ["record", "apply", "container", "alpha", "global"], ids=lambda where: f"hook on {where}"
)
def test_a_hook_that_comes_later_runs(where: str) -> None:
    seen: list[str] = []
    block = ResidualSequential(
        nn.Sequential(Record(name="r"), nn.Linear(2, 2)), Apply("gated", "r", LearnableAlpha(0.3))
    )
    x = torch.ones(1, 2)
    expected = block(x)
    module = {"record": block[0][0], "apply": block[1], "container": block[0], "alpha": block[1].alpha}  # type: ignore[index]
    if where == "global":
        handle = nn.modules.module.register_module_forward_hook(lambda *_: seen.append(where))
    else:
        handle = module[where].register_forward_hook(lambda *_: seen.append(where))
    torch.testing.assert_close(block(x), expected)
    assert seen
    seen.clear()
    block(x)  # by a plan that knows of the hook from the start
    assert seen
    handle.remove()
    seen.clear()
    block(x)
    assert not seen


@pytest.mark.parametrize("kind", ["add 0.3", "concat 1.0", "highway 1.0", "given", "nested"])
def test_an_error_reads_like_that_of_the_plan(kind: str) -> None:
    block = WRITTEN[kind]()
    block._modules["1"] = nn.Linear(4, 3)
    if kind == "concat 1.0":
        block._modules["1"] = nn.Unflatten(1, (1, 3))
    x = torch.zeros(2, 3, 4)
    with pytest.raises(ResidualError) as planned:
        run(block, block.plan, x)
    with pytest.raises(ShapeError) as written:
        block(x)
    assert str(written.value) == str(planned.value)


def test_a_layers_own_error_is_said_to_be_at_its_place_and_not_run_again() -> None:
    class Fails(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, _: Tensor) -> Tensor:
            self.calls += 1
            raise KeyError("missing")

    layer = Fails()
    block = ResidualSequential(Record(), layer, Apply())
    with pytest.raises(KeyError) as caught:
        block(torch.zeros(1))
    assert layer.calls == 1
    assert getattr(caught.value, "__notes__", ["at '1'"])[0].endswith("at '1': Fails") or not hasattr(
        caught.value, "add_note"
    )


def test_a_layer_that_writes_over_a_record_is_refused_by_name() -> None:
    block = ResidualSequential(nn.Linear(2, 2), Record(name="start"), AddsInPlace(), Apply())
    with pytest.raises(ResidualError, match=r"changed the tensor recorded as 'start' in place"):
        block(torch.zeros(1, 2))
    with torch.inference_mode():  # nobody counts there: it gets a copy
        x = torch.ones(1, 2)
        y = block[0](x)
        torch.testing.assert_close(block(x), 2 * y + 1)


def test_a_projection_runs_once_even_where_its_shape_does_not_fit() -> None:
    class Counts(nn.Module):
        calls = 0

        def forward(self, r: Tensor) -> Tensor:
            Counts.calls += 1
            return r[:, :1]

    block = ResidualSequential(Record(), nn.Linear(4, 4), Apply(projection=Counts()))
    block(torch.zeros(2, 4))  # broadcasts
    assert Counts.calls == 1


def test_copies_write_their_own() -> None:
    block = ResidualSequential(Record(), nn.Linear(2, 2), Apply())
    twin = copy.deepcopy(block)
    assert twin._plan_cache.written is not None
    assert twin._plan_cache.written is not block._plan_cache.written
    with torch.no_grad():
        twin[1].weight.zero_()  # type: ignore[operator]
        twin[1].bias.zero_()  # type: ignore[operator]
    x = torch.ones(1, 2)
    assert torch.equal(twin(x), x)
    assert not torch.equal(block(x), x)
