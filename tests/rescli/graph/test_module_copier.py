from __future__ import annotations

import copy
import copyreg
from collections import OrderedDict
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from rescli.graph.module_copier import ModuleCopier
from torchresidual import Apply, LearnableAlpha, Record, ResidualSequential

if TYPE_CHECKING:
    from typing_extensions import Self


def twin_of(module: nn.Module) -> Any:  # noqa: ANN401 - of the class of the module
    return ModuleCopier({}, lambda tensor: tensor.detach().clone(), nullcontext).copy(module)


def test_a_copy_is_what_deepcopy_makes() -> None:
    block = ResidualSequential(
        Record(name="r", need_projection=True),
        nn.Sequential(nn.Conv1d(4, 8, 3, padding=1), nn.BatchNorm1d(8)),
        Apply("gated", record_name="r", alpha=LearnableAlpha(0.3)),
        nn.LSTM(6, 6),
    )
    block.register_forward_hook(lambda *_: None)
    mine, theirs = twin_of(block), copy.deepcopy(block)
    assert repr(mine) == repr(theirs)
    for one, other in zip(mine.modules(), theirs.modules(), strict=True):
        assert list(vars(one)) == list(vars(other))
        assert list(map(type, vars(one).values())) == list(map(type, vars(other).values()))
    for name, value in theirs.state_dict().items():
        assert mine.state_dict()[name].equal(value)
    assert len(mine._forward_hooks) == 1
    x = torch.ones(2, 4, 6)
    assert mine.eval()(x)[0].equal(block.eval()(x)[0])


def test_no_container_of_torchs_own_is_shared_even_if_it_is_empty() -> None:
    block = nn.ReLU()
    for value, original in zip(vars(twin_of(block)).values(), vars(block).values(), strict=True):
        assert value is not original or isinstance(value, bool | None)


def test_what_several_modules_share_is_shared_by_their_copies_too() -> None:
    registry: dict[str, object] = {}
    one, other = nn.Linear(2, 2), nn.Linear(2, 2)
    other.weight = one.weight
    vars(one).update(registry=registry, neighbours=[other])
    vars(other).update(registry=registry)
    mine = twin_of(nn.Sequential(one, other, one))
    assert mine[0] is mine[2]
    assert mine[0].weight is mine[1].weight
    assert mine[0].registry is mine[1].registry is not registry
    assert mine[0].neighbours[0] is mine[1]


def test_a_class_that_says_how_it_is_copied_is_asked() -> None:
    class Numbered(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.number = 0

    class Deep(Numbered):
        def __deepcopy__(self, memo: dict[int, Any]) -> Deep:
            twin = Deep()
            twin.number = 1
            return twin

    class Reduced(Numbered):
        def __reduce__(self) -> tuple[Any, ...]:
            return Reduced, (), {"number": 2}

    class Made(Numbered):
        def __new__(cls, number: int = 9) -> Self:
            made = super().__new__(cls)
            vars(made)["given"] = number
            return made

        def __getnewargs__(self) -> tuple[int]:
            return (3,)

    class Listed(Numbered): ...

    class Stated(Numbered):
        def __getstate__(self) -> dict[str, Any]:
            return {**vars(self), "number": 6}

    def restored() -> Listed:
        twin = Listed()
        twin.number = 4
        return twin

    copyreg.pickle(Listed, lambda _: (restored, ()))
    try:
        block = nn.Sequential(OrderedDict(d=Deep(), r=Reduced(), l=Listed(), t=Stated(), m=Made()))
        mine, theirs = twin_of(block), copy.deepcopy(block)
    finally:
        del copyreg.dispatch_table[Listed]
    assert [each.number for each in mine] == [each.number for each in theirs] == [1, 2, 4, 6, 0]
    assert mine.m.given == vars(theirs.m)["given"]


def test_tensors_that_deepcopy_meets_are_its_own_to_copy() -> None:
    met: list[Tensor] = []

    class Watch:
        def __enter__(self) -> None:
            met.append(torch.zeros(0))

        def __exit__(self, *_: object) -> None: ...

    block = nn.BatchNorm1d(2)
    ModuleCopier({}, lambda tensor: tensor, Watch).copy(block)
    assert len(met) == 3  # the running mean, the running variance and the number of batches
