"""The protocol of nn.Sequential: every edit keeps a block a block, and is noticed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import given
from torch import nn

from tests.torchresidual.properties import DETERMINISTIC
from tests.torchresidual.random_blocks import blocks
from tests.torchresidual.toys import apply_in
from torchresidual import (
    Apply,
    OutsideBlockError,
    Record,
    ResidualSequential,
    UnknownRecordError,
    UnsettledError,
    sequential,
)
from torchresidual.planning import make_plan

if TYPE_CHECKING:
    from torchresidual.plan import Plan


def make() -> ResidualSequential:
    return ResidualSequential(Record(name="r"), nn.Hardtanh(), Apply(record_name="r"))


def test_a_slice_stays_a_block_and_names_the_apply_that_lost_its_record() -> None:
    block = ResidualSequential(nn.Identity(), Record(name="r"), nn.Hardtanh(), Apply(record_name="r"))
    assert type(block[1:]) is ResidualSequential
    assert torch.equal(block[1:](torch.tensor([3.0])), torch.tensor([4.0]))
    with pytest.raises(UnknownRecordError) as caught:
        block[2:](torch.ones(1))
    message = str(caught.value)
    assert "Apply(operation='add', record_name='r', alpha=1.0) at '3'" in message
    assert "a Record named 'r' must run before it" in message
    assert "Records there: none" in message


def test_a_slice_leaves_the_block_it_was_cut_from_as_it_was() -> None:
    block = ResidualSequential(
        nn.Conv1d(3, 4, 1), Record(need_projection=True), nn.Hardtanh(), Apply("concat")
    )
    x = torch.randn(2, 3, 4)
    expected = block(x)
    tail = block[1:]
    assert torch.equal(block(x), expected)
    assert expected.shape == (2, 8, 4)
    assert torch.equal(tail(block[0](x)), expected)


def test_children_put_into_a_plain_sequential_say_what_they_need() -> None:
    block = make()
    with pytest.raises(OutsideBlockError) as caught:
        nn.Sequential(*block.children())(torch.ones(1))
    message = str(caught.value)
    assert "Apply(operation='add', record_name='r', alpha=1.0)" in message
    assert "only works inside a ResidualSequential" in message
    assert "Record into one" in message


def test_every_edit_is_noticed() -> None:
    x = torch.tensor([3.0])
    block = make()
    assert torch.equal(block(x), torch.tensor([4.0]))
    block.append(Apply("multiply", "r"))
    assert torch.equal(block(x), torch.tensor([16.0]))
    block.insert(3, nn.Hardtanh())
    assert torch.equal(block(x), torch.tensor([4.0]))
    del block[3]
    assert torch.equal(block(x), torch.tensor([16.0]))
    block[1] = nn.Hardtanh(-2, 2)
    assert torch.equal(block(x), torch.tensor([20.0]))
    setattr(block, "1", nn.Identity())
    assert torch.equal(block(x), torch.tensor([24.0]))
    block._modules["1"] = nn.Hardtanh()
    assert torch.equal(block(x), torch.tensor([16.0]))
    assert isinstance(block.pop(3), Apply)
    assert torch.equal(block(x), torch.tensor([4.0]))
    block.extend([nn.Hardtanh(), Apply("add", "r")])
    assert torch.equal(block(x), torch.tensor([4.0]))
    block.add_module("last", nn.Hardtanh())
    assert torch.equal(block(x), torch.tensor([1.0]))
    del block[-1]
    del block[1:4]
    assert torch.equal(block(x), torch.tensor([6.0]))


def test_plus_and_times_stay_blocks() -> None:
    x, block = torch.tensor([3.0]), make()
    for twice in (block * 2, 2 * block, block + block, block + nn.Sequential(*block)):
        assert type(twice) is ResidualSequential
        assert torch.equal(twice(x), torch.tensor([5.0]))
    block *= 2
    assert type(block) is ResidualSequential
    assert torch.equal(block(x), torch.tensor([5.0]))
    block += nn.Sequential(nn.Hardtanh())
    assert torch.equal(block(x), torch.tensor([1.0]))


def test_a_failed_edit_leaves_the_block_usable() -> None:
    block = make()
    with pytest.raises((TypeError, AssertionError), match=r"should be of type|is not a Module"):
        block.insert(0, "no module")  # type: ignore[arg-type]  # on purpose
    with pytest.raises(IndexError):
        del block[9]
    assert torch.equal(block(torch.tensor([3.0])), torch.tensor([4.0]))


def test_an_apply_appended_to_a_nested_container_is_noticed() -> None:
    x = torch.tensor([3.0])
    nested, deep = nn.Sequential(nn.Hardtanh()), nn.Sequential(nn.Identity())
    block = ResidualSequential(Record(name="r"), nested, ResidualSequential(deep))
    assert torch.equal(block(x), torch.tensor([1.0]))
    nested.append(Apply(record_name="r"))
    assert torch.equal(block(x), torch.tensor([4.0]))
    deep.append(Apply(record_name="r"))
    assert torch.equal(block(x), torch.tensor([7.0]))


def test_an_apply_with_gates_appended_to_a_nested_container_is_equipped_by_materialize() -> None:
    nested = nn.Sequential(nn.Linear(4, 4))
    block = ResidualSequential(Record(name="r"), nested)
    nested.append(Apply("highway", "r"))
    with pytest.raises(
        UnsettledError, match=r"at '1.1'.*its gates do not exist.*call block.materialize\(example\)"
    ):
        block(torch.zeros(2, 4))
    assert block.materialize(torch.zeros(2, 4))(torch.zeros(2, 4)).shape == (2, 4)
    assert len(list(block.parameters())) == 6


def test_a_layer_replaced_as_adapters_do_is_run() -> None:
    block = ResidualSequential(Record(), nn.Sequential(nn.Linear(2, 2)), Apply())
    x = torch.randn(1, 2)
    block(x)
    replacement = nn.Linear(2, 2)
    block.get_submodule("1")._modules["0"] = replacement
    torch.testing.assert_close(block(x), x + replacement(x))


def test_edits_make_the_projections_that_are_needed_now() -> None:
    block = ResidualSequential(Record(need_projection=True), nn.Linear(4, 4), Apply())
    assert apply_in(block).projection_layer is None
    block[1] = nn.Linear(4, 6)
    projection = apply_in(block).projection_layer
    assert isinstance(projection, nn.Linear)
    assert projection.weight.shape == (6, 4)
    block.append(nn.Tanh())
    assert apply_in(block).projection_layer is projection
    block[1] = nn.Linear(4, 4)
    assert apply_in(block).projection_layer is None


@DETERMINISTIC
@given(blocks())
@pytest.mark.filterwarnings("ignore:the Apply at")
def test_a_block_that_grew_by_appending_is_the_one_made_at_once(block: ResidualSequential) -> None:
    grown = ResidualSequential()
    for module in block:
        grown.append(module)
    at_once = ResidualSequential(*block)
    assert grown.edges() == at_once.edges()
    assert grown.get_residual_info() == at_once.get_residual_info()
    assert list(grown.state_dict()) == list(at_once.state_dict())


def test_appending_many_skips_plans_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []

    def counted(block: nn.Sequential) -> Plan:
        made.append(block)
        return make_plan(block)

    monkeypatch.setattr(sequential, "make_plan", counted)
    block = ResidualSequential()
    before = len(made)
    for _ in range(50):
        block.append(Record()).append(nn.Hardtanh()).append(Apply())
    assert len(made) == before
    assert block(torch.ones(1)).item() == 51
    assert len(made) == before + 1
    block.append(Record(need_projection=True))  # this one may need a size
    assert len(made) > before + 1


def test_a_name_that_an_automatic_one_had_renames_it_also_when_appended() -> None:
    block = ResidualSequential()
    for name in (None, "record_1", None):
        block.append(Record(name=name))
    assert [record.name for record in block if isinstance(record, Record)] == [
        "record_2",
        "record_1",
        "record_3",
    ]


def test_an_appended_record_takes_the_next_name_that_is_free() -> None:
    block = ResidualSequential()
    for name in ("record_2", None, None):
        block.append(Record(name=name))
    names = [record.name for record in block if isinstance(record, Record)]
    assert names == ["record_2", "record_3", "record_4"]
    assert list(block.plan.names.values()) == names


def _block(*modules: nn.Module | None) -> ResidualSequential:
    return ResidualSequential(*modules)  # type: ignore[arg-type]  # torch takes None, and refuses other things


def test_layers_taken_all_at_once_are_those_that_torch_takes_one_by_one() -> None:
    layer = nn.Linear(2, 2)
    modules = [Record(), layer, nn.Tanh(), layer, Apply()]
    assert list(_block(*modules)._modules.items()) == list(nn.Sequential(*modules)._modules.items())
    assert list(_block(Record(), None, Apply())._modules) == ["0", "1", "2"]
    with pytest.raises(TypeError, match="not a Module subclass"):
        _block(Record(), 3)  # type: ignore[arg-type]


def test_who_listens_for_new_children_hears_of_each() -> None:
    heard: list[str] = []
    handle = nn.modules.module.register_module_module_registration_hook(
        lambda module, name, _: heard.append(name) if isinstance(module, ResidualSequential) else None
    )
    try:
        _block(Record(), nn.Tanh(), Apply())
    finally:
        handle.remove()
    assert heard == ["0", "1", "2"]


def test_a_subclass_decides_what_becomes_a_child() -> None:
    class Doubled(ResidualSequential):
        def add_module(self, name: str, module: nn.Module | None) -> None:
            super().add_module(f"a{name}", module)

    assert list(Doubled(Record(), nn.Tanh(), Apply())._modules) == ["a0", "a1", "a2"]
