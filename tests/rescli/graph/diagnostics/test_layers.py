"""Layers in the wrong place, each beside a twin that stands right."""

from __future__ import annotations

import pytest
from torch import Tensor, nn

from tests.rescli.graph.finding import Case, found, linear, messages
from torchresidual import Apply, Record, RecurrentWrapper, ResidualSequential


class DropPath(nn.Module):
    """As other libraries have it."""

    def __init__(self, drop_prob: float | None) -> None:
        super().__init__()
        self.drop_prob = drop_prob

    def forward(self, x: Tensor) -> Tensor:
        return x * 1.0


class StochasticDepth(DropPath):
    """Another one."""


class Raindrops(DropPath):
    """No such thing, in spite of its name."""


def skip(*layers: nn.Module, operation: str = "add") -> nn.Module:
    return ResidualSequential(Record(name="a"), *layers, Apply(operation, "a"))


def followed_by(*layers: nn.Module, operation: str = "add") -> nn.Module:
    return ResidualSequential(Record(name="a"), linear(), Apply(operation, "a"), *layers)


def lstm(*, batch_first: bool) -> nn.Module:
    return skip(RecurrentWrapper(nn.LSTM(4, 4, batch_first=batch_first)))


IN_PLACE = [("in-place-after-record", "warning", "1")]
DROPS = [("dropout-after-apply", "warning", "3")]

CASES = {
    "an in-place layer behind the record": Case(
        lambda: skip(nn.ReLU(inplace=True), linear()), lambda: skip(nn.ReLU(), linear()), IN_PLACE
    ),
    "an in-place layer that has a tensor of its own": Case(
        lambda: skip(nn.ReLU(inplace=True), linear()), lambda: skip(linear(), nn.ReLU(inplace=True)), IN_PLACE
    ),
    "an in-place layer behind what gives the record on": Case(
        lambda: skip(nn.Sequential(nn.Identity(), nn.ReLU(inplace=True)), linear()),
        lambda: skip(nn.Sequential(nn.LayerNorm(4), nn.ReLU(inplace=True)), linear()),
        [("in-place-after-record", "warning", "1.1")],
    ),
    "an in-place layer behind a shuffle, which makes a new tensor": Case(
        lambda: skip(nn.Flatten(1), nn.ReLU(inplace=True)),
        lambda: skip(nn.ChannelShuffle(2), nn.ReLU(inplace=True)),
        [("in-place-after-record", "warning", "2")],
    ),
    "an in-place dropout": Case(
        lambda: skip(nn.Dropout(0.5, inplace=True), linear()),
        lambda: skip(nn.Dropout(0.5), linear()),
        IN_PLACE,
    ),
    "a record that is not needed any more": Case(
        lambda: skip(nn.ReLU(inplace=True), linear()),
        lambda: followed_by(nn.ReLU(inplace=True)),
        IN_PLACE,
    ),
    "a dropout behind the apply": Case(
        lambda: followed_by(nn.Dropout(0.1)), lambda: skip(linear(), nn.Dropout(0.1)), DROPS
    ),
    "a dropout that is off": Case(
        lambda: followed_by(nn.Dropout1d(0.1)), lambda: followed_by(nn.Dropout1d(0.0)), DROPS, shape=(2, 3, 4)
    ),
    "a dropout of the next branch": Case(
        lambda: followed_by(nn.Dropout(0.1)),
        lambda: followed_by(Record(name="b"), nn.Dropout(0.1), linear(), Apply(record_name="b")),
        DROPS,
    ),
    "a dropout behind another layer": Case(
        lambda: followed_by(nn.Dropout(0.1)), lambda: followed_by(linear(), nn.Dropout(0.1)), DROPS
    ),
    "a dropout of features that were joined": Case(
        lambda: followed_by(nn.Dropout(0.1)), lambda: followed_by(nn.Dropout(0.1), operation="concat"), DROPS
    ),
    "a drop path of another library": Case(
        lambda: followed_by(DropPath(0.1)), lambda: followed_by(DropPath(None)), DROPS
    ),
    "stochastic depth": Case(
        lambda: followed_by(nn.Identity(), StochasticDepth(0.1)),
        lambda: followed_by(nn.Identity(), Raindrops(0.1)),
        [("dropout-after-apply", "warning", "4")],
    ),
    "a dropout in a block around": Case(
        lambda: nn.Sequential(followed_by(), nn.Dropout(0.1)),
        lambda: nn.Sequential(followed_by(linear()), nn.Dropout(0.1)),
        [("dropout-after-apply", "warning", "1")],
    ),
    "a recurrent layer with the batch second": Case(
        lambda: lstm(batch_first=False),
        lambda: lstm(batch_first=True),
        [("batch-second", "note", "1.module")],
        shape=(5, 2, 4),
    ),
    "attention with the batch second": Case(
        lambda: skip(nn.MultiheadAttention(4, 1)),
        lambda: skip(nn.MultiheadAttention(4, 1, batch_first=True)),
        [("batch-second", "note", "1")],
        shape=(5, 2, 4),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_fault_is_found_and_its_twin_is_not(name: str) -> None:
    CASES[name].check()


def test_a_sequence_without_a_batch_has_none_in_the_wrong_place() -> None:
    assert found(lstm(batch_first=False), (5, 4)) == []


def test_one_layer_is_told_of_once_however_many_skips_meet_there() -> None:
    block = ResidualSequential(
        Record(name="a"),
        Record(name="b"),
        nn.ReLU(inplace=True),
        linear(),
        Apply(record_name="a"),
        Apply(record_name="b"),
    )
    assert found(block) == [("in-place-after-record", "warning", "2")]


def test_messages_say_what_it_costs_and_what_to_do() -> None:
    assert messages(skip(nn.ReLU(inplace=True), linear())) == [
        (
            "ReLU works in place on what the record 'a' keeps: it gets a copy of the 32 B at each call",
            "inplace=False makes the new tensor without copying first",
        )
    ]
    assert messages(followed_by(nn.Dropout(0.1))) == [
        (
            "Dropout drops parts of what the Apply at '2' gave: of the skip, not only of the branch",
            "put it in front of the Apply, so that what was recorded always comes through",
        )
    ]
    ((message, hint),) = messages(nn.Sequential(nn.LSTM(4, 4)), (5, 2, 4))
    assert message == (
        "LSTM takes (time, batch, features): nn.DataParallel cuts its input along dim 0, which is time, not the "
        "batch"
    )
    assert hint == "build it with batch_first=True, or use nn.DataParallel(block, dim=1)"


def test_several_layers_with_the_batch_second_are_one_note() -> None:
    block = nn.Sequential(RecurrentWrapper(nn.GRU(4, 4)), RecurrentWrapper(nn.GRU(4, 4)))
    ((message, _),) = messages(block, (5, 2, 4))
    assert message.startswith("GRU takes (time, batch, features), as 1 more layer here: ")
