from __future__ import annotations

import copy
from collections import OrderedDict

import pytest
import torch
from torch import Tensor, nn

from tests.torchresidual.toys import Doubled, InOrder, apply_in, record_in
from torchresidual import (
    Apply,
    Edge,
    LearnableAlpha,
    Record,
    ResidualSequential,
    UnknownRecordError,
)


def test_a_block_without_records_is_a_sequential() -> None:
    layers = [nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 2)]
    x = torch.randn(2, 3)
    assert torch.equal(ResidualSequential(*layers)(x), nn.Sequential(*layers)(x))
    assert ResidualSequential()(x) is x


def test_children_of_an_ordered_dict_keep_their_names() -> None:
    linear = nn.Linear(4, 4)
    block = ResidualSequential(
        OrderedDict([("start", Record(name="r")), ("linear", linear), ("end", Apply(record_name="r"))])
    )
    x = torch.randn(2, 4)
    torch.testing.assert_close(block(x), x + linear(x))
    assert list(block.state_dict()) == ["linear.weight", "linear.bias"]
    assert block.edges() == (Edge("start", "r", "end", "add"),)


def test_the_same_linear_twice_runs_twice() -> None:
    linear = nn.Linear(4, 4)
    x = torch.randn(2, 4)
    torch.testing.assert_close(ResidualSequential(linear, linear)(x), linear(linear(x)))


def test_an_activation_that_stands_twice_runs_twice_and_counts_once() -> None:
    calls: list[int] = []
    act = nn.ReLU()
    act.register_forward_hook(lambda *_: calls.append(1))
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    block = ResidualSequential(Record(), first, act, second, act, Apply())
    x = torch.randn(2, 4)
    torch.testing.assert_close(block(x), x + second(first(x).relu()).relu())
    assert len(calls) == 2
    assert sum(parameter.numel() for parameter in block.parameters()) == 40


def test_a_record_and_an_apply_that_stand_twice_work_at_each_place() -> None:
    record, apply = Record(name="r"), Apply(record_name="r", alpha=0.5)
    block = ResidualSequential(record, nn.Hardtanh(), apply, record, nn.Hardtanh(), apply)
    x = torch.tensor([-4.0, 0.5])
    middle = x.clamp(-1, 1) + 0.5 * x
    torch.testing.assert_close(block(x), middle.clamp(-1, 1) + 0.5 * middle)
    assert [edge.apply_path for edge in block.edges()] == ["2", "5"]


class TestNames:
    """Which Record an Apply reads."""

    def test_an_unnamed_apply_takes_the_latest_record(self) -> None:
        block = ResidualSequential(
            Record(name="a"), nn.Hardtanh(), Record(name="b"), nn.Hardtanh(-0.5, 0.5), Apply()
        )
        assert torch.equal(block(torch.tensor([3.0])), torch.tensor([1.5]))

    def test_a_name_recorded_anew_means_the_new_one_from_there_on(self) -> None:
        block = ResidualSequential(
            Record(name="a"),
            nn.Hardtanh(),
            Apply(record_name="a"),
            Record(name="a"),
            nn.Hardtanh(),
            Apply("add", "a"),
        )
        assert torch.equal(block(torch.tensor([3.0])), torch.tensor([5.0]))

    def test_an_apply_before_its_record_never_reads_the_call_before(self) -> None:
        block = ResidualSequential(
            nn.Identity(), Apply(record_name="a"), Record(name="a"), Apply(record_name="a")
        )
        for _ in range(2):
            with pytest.raises(UnknownRecordError, match="a Record named 'a' must run before it"):
                block(torch.ones(1))

    def test_automatic_names_avoid_the_taken_ones(self) -> None:
        block = ResidualSequential(Record(), Record(name="record_2"), Record(), Record())
        assert [record_in(block, i).name for i in range(4)] == [
            "record_1",
            "record_2",
            "record_3",
            "record_4",
        ]

    def test_automatic_names_follow_the_position_when_the_block_is_edited(self) -> None:
        block = ResidualSequential(Record(), nn.Linear(2, 2), Record())
        first, second = record_in(block, 0), record_in(block, 1)
        inserted = Record()
        block.insert(0, inserted)
        assert [inserted.name, first.name, second.name] == ["record_1", "record_2", "record_3"]
        block.append(Record(name="record_1"))
        assert [inserted.name, first.name, second.name] == ["record_2", "record_3", "record_4"]
        del block[0]
        assert [first.name, second.name] == ["record_2", "record_3"]

    def test_a_name_changed_later_is_what_is_looked_for(self) -> None:
        block = ResidualSequential(Record(name="a"), nn.Hardtanh(), Apply(record_name="a"))
        block(torch.ones(1))
        record_in(block).name = "b"
        with pytest.raises(UnknownRecordError, match="Records there: 'b'"):
            block(torch.ones(1))
        apply_in(block).record_name = "b"
        assert torch.equal(block(torch.ones(1)), torch.tensor([2.0]))

    def test_an_operation_changed_later_is_used(self) -> None:
        block = ResidualSequential(Record(), nn.Hardtanh(), Apply())
        apply_in(block).operation = "multiply"
        assert torch.equal(block(torch.tensor([3.0])), torch.tensor([4.0]))
        assert block.edges()[0].operation == "multiply"


class TestNesting:
    """Containers inside containers."""

    def test_records_and_applies_work_at_any_depth_of_plain_sequentials(self) -> None:
        block = ResidualSequential(
            nn.Sequential(nn.Sequential(Record(name="r"), nn.Hardtanh())),
            nn.Sequential(Apply(record_name="r")),
        )
        assert torch.equal(block(torch.tensor([3.0])), torch.tensor([4.0]))
        assert block.edges() == (Edge("0.0.0", "r", "1.0", "add"),)

    def test_a_nested_block_has_a_scope_of_its_own(self) -> None:
        block = ResidualSequential(
            Record(name="r"),
            ResidualSequential(Record(name="r"), nn.Hardtanh(), Apply(record_name="r")),
            Apply(record_name="r"),
        )
        assert torch.equal(block(torch.tensor([3.0])), torch.tensor([7.0]))

    def test_a_name_not_found_inside_is_looked_up_around(self) -> None:
        block = ResidualSequential(
            Record(name="out"),
            nn.Hardtanh(),
            ResidualSequential(
                Record(name="in"), ResidualSequential(nn.Hardtanh(-0.5, 0.5), Apply("add", "out"))
            ),
        )
        assert torch.equal(block(torch.tensor([3.0])), torch.tensor([3.5]))
        assert block.edges() == (Edge("0", "out", "2.1.1", "add"),)

    def test_a_record_inside_a_nested_block_is_not_seen_from_outside(self) -> None:
        block = ResidualSequential(ResidualSequential(Record(name="in")), Apply(record_name="in"))
        with pytest.raises(UnknownRecordError, match="'in'"):
            block(torch.ones(1))

    def test_layers_of_the_users_own_may_hold_records_and_applies(self) -> None:
        block = ResidualSequential(
            InOrder(Record(name="r"), nn.Hardtanh()), nn.Identity(), InOrder(Apply("add", "r"))
        )
        assert torch.equal(block(torch.tensor([3.0])), torch.tensor([4.0]))

    def test_the_crossing_skips_of_the_readme(self) -> None:
        layers = [nn.Linear(64, 32), nn.Linear(32, 64), nn.Linear(64, 32)]
        block = ResidualSequential(
            Record(name="input", need_projection=True),
            layers[0],
            nn.ReLU(),
            Record(name="mid"),
            layers[1],
            Apply(record_name="input"),
            layers[2],
            Apply(record_name="mid"),
        )
        x = torch.randn(8, 64)
        mid = layers[0](x).relu()
        torch.testing.assert_close(block(x), layers[2](layers[1](mid) + x) + mid)
        assert [(edge.record_path, edge.apply_path) for edge in block.edges()] == [("0", "5"), ("3", "7")]
        assert len(list(block.parameters())) == 6


class TestInformation:
    """What a block says about itself."""

    def test_residual_info_is_that_of_the_published_library(self) -> None:
        alpha = LearnableAlpha(0.5)
        block = ResidualSequential(Record(True, "a"), nn.Linear(2, 2), Apply("gated", "a", alpha), Record())
        block(torch.zeros(1, 2))
        assert block.get_residual_info() == {
            "records": [
                {"name": "a", "need_projection": True, "shape": None},
                {"name": "record_2", "need_projection": False, "shape": None},
            ],
            "applies": [{"operation": "gated", "record_name": "a", "alpha": alpha}],
        }

    def test_edges_are_in_order_of_their_applies_nested_ones_included(self) -> None:
        inner = ResidualSequential(Record(), nn.Tanh(), Apply("multiply"))
        block = ResidualSequential(Record(name="a"), inner, Apply("concat", "a"))
        assert block.edges() == (Edge("1.0", "record_1", "1.2", "multiply"), Edge("0", "a", "2", "concat"))

    def test_a_lonely_apply_is_warned_of(self) -> None:
        with pytest.warns(UserWarning, match="the Apply at '1' has no Record before it in this block"):
            ResidualSequential(nn.Tanh(), Apply())


class TestMaterialize:
    """Settling sizes before the first call."""

    def test_nothing_but_the_sizes_changes(self) -> None:
        block = ResidualSequential(
            nn.BatchNorm1d(4), Record(need_projection=True), Doubled(), nn.Dropout(0.5), Apply("highway")
        )
        block[3].eval()
        before = copy.deepcopy(
            {key: value for key, value in block.state_dict().items() if key.startswith("0")}
        )
        torch.manual_seed(7)
        state = torch.get_rng_state()
        assert block.materialize(torch.randn(3, 4, generator=torch.Generator().manual_seed(1))) is block
        assert torch.equal(torch.get_rng_state(), state)
        assert all(torch.equal(block.state_dict()[key], value) for key, value in before.items())
        assert [block.training, block[0].training, block[3].training] == [True, True, False]
        assert all(parameter.grad is None for parameter in block.parameters())
        assert not any(nn.parameter.is_lazy(parameter) for parameter in block.parameters())

    def test_a_graph_that_waits_for_its_backward_stays_usable(self) -> None:
        scale = torch.tensor(0.5)
        block = ResidualSequential(Record(need_projection=True), Doubled(), Apply(scale=scale))
        x = torch.ones(2, requires_grad=True)
        waiting = (scale * x).sum()
        block.materialize(torch.zeros(1, 2))
        torch.autograd.backward(waiting)
        assert x.grad is not None
        assert torch.equal(x.grad, torch.full((2,), 0.5))

    def test_modes_and_buffers_come_back_after_an_error(self) -> None:
        block = ResidualSequential(nn.BatchNorm1d(4), nn.Linear(4, 4)).train()
        with pytest.raises(RuntimeError):
            block.materialize(torch.randn(3, 5))
        assert all(module.training for module in block.modules())

    def test_a_layer_that_counts_its_calls_does_not_count_this_one(self) -> None:
        class Counts(nn.Module):
            calls: Tensor

            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("calls", torch.zeros(()))

            def forward(self, x: Tensor) -> Tensor:
                self.calls.add_(1)
                return x

        block = ResidualSequential(Counts(), Record(need_projection=True), Doubled(), Apply())
        block.materialize(torch.randn(3, 4))
        assert block.state_dict()["0.calls"].item() == 0
