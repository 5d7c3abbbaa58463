"""Skips that do nothing, stretch, or cost too much; each beside a twin that is right."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tests.rescli.graph.finding import Case, Scale, found, linear, messages
from torchresidual import Apply, Record, ResidualSequential


class Doubled(nn.Module):
    """Runs a layer on twice its input: what stands between is not only what is listed."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        inner: Tensor = self.inner(2 * x)
        return inner


def skip(*layers: nn.Module, operation: str = "add", projects: bool = False) -> nn.Module:
    return ResidualSequential(Record(projects, "a"), *layers, Apply(operation, "a"))


def hooked() -> nn.Module:
    layer = nn.Identity()
    layer.register_forward_hook(lambda _module, _inputs, output: 2 * output)
    return layer


CASES = {
    "nothing between": Case(skip, lambda: skip(linear()), [("identity-skip", "warning", "1")]),
    "only an Identity between": Case(
        lambda: skip(nn.Sequential(nn.Identity())),
        lambda: skip(nn.Sequential(nn.Dropout(0.1))),
        [("identity-skip", "warning", "2")],
    ),
    "an Identity whose hook computes": Case(
        lambda: skip(nn.Identity()), lambda: skip(hooked()), [("identity-skip", "warning", "2")]
    ),
    "a shuffle": Case(
        lambda: skip(nn.Identity()),
        lambda: skip(nn.ChannelShuffle(2)),
        [("identity-skip", "warning", "2")],
        shape=(2, 4, 3),
    ),
    "an Identity in a module that computes": Case(
        lambda: skip(nn.Identity()), lambda: skip(Doubled()), [("identity-skip", "warning", "2")]
    ),
    "nothing but another skip between": Case(
        lambda: ResidualSequential(
            Record(name="a"), Record(name="b"), Apply(record_name="a"), linear(), Apply(record_name="b")
        ),
        lambda: ResidualSequential(
            Record(name="a"), Record(name="b"), linear(), Apply(record_name="b"), Apply(record_name="a")
        ),
        [("identity-skip", "warning", "2")],
    ),
    "a projection of one's own is something": Case(
        skip,
        lambda: ResidualSequential(Record(name="a"), Apply(record_name="a", projection=linear())),
        [("identity-skip", "warning", "1")],
    ),
    "a stretched record": Case(
        lambda: skip(nn.Linear(1, 4)),
        lambda: skip(nn.Linear(1, 4), projects=True),
        [("broadcasting-skip", "warning", "2")],
        shape=(2, 1),
    ),
    "a concat stretches nothing": Case(
        lambda: skip(nn.Linear(1, 4), operation="multiply"),
        lambda: skip(nn.Linear(1, 4), operation="concat"),
        [("broadcasting-skip", "warning", "2")],
        shape=(2, 1),
    ),
    "a projection bigger than the branch": Case(
        lambda: skip(nn.Conv1d(8, 32, 1, groups=8), projects=True),
        lambda: skip(nn.Conv1d(8, 32, 1), projects=True),  # as big, not bigger
        [("oversized-projection", "warning", "2")],
        shape=(2, 8, 5),
    ),
    "a projection around a layer without parameters": Case(
        lambda: skip(nn.MaxPool1d(2), projects=True),
        lambda: skip(nn.MaxPool1d(2), nn.Conv1d(4, 4, 3, padding=1), projects=True),
        [("oversized-projection", "warning", "2"), ("unsettled-parameters", "note", "2.projection_layer")],
        shape=(2, 4, 6),
    ),
    "a projection that is never needed": Case(
        lambda: skip(linear(), projects=True),
        lambda: skip(nn.Linear(4, 8), projects=True),
        [("unneeded-projection", "note", "0")],
    ),
    "a projection that one of two skips needs": Case(
        lambda: skip(linear(), projects=True),
        lambda: ResidualSequential(
            Record(True, "a"), linear(), Apply(record_name="a"), nn.Linear(4, 8), Apply(record_name="a")
        ),
        [("unneeded-projection", "note", "0")],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_fault_is_found_and_its_twin_is_not(name: str) -> None:
    CASES[name].check()


def test_a_layer_used_again_shows_no_parameters_and_is_not_held_against_the_projection() -> None:
    shared = nn.Linear(4, 8)
    block = ResidualSequential(
        Record(True, "a"),
        shared,
        Apply(record_name="a"),
        nn.Linear(8, 4),
        Record(True, "b"),
        shared,
        Apply(record_name="b"),
    )
    assert found(block) == []


def test_of_a_block_that_stopped_nobody_knows_whether_a_projection_is_needed() -> None:
    block = ResidualSequential(
        Record(True, "a"), linear(), Apply(record_name="a"), nn.Linear(3, 3), Apply(record_name="a")
    )
    assert found(block) == [("layer-failed", "error", "3")]


@pytest.mark.parametrize(
    ("operation", "gives"),
    [
        ("add", "a multiple of what came in"),
        ("concat", "the same features twice"),
        ("multiply", "x * (1 + alpha * x)"),
        ("gated", "what came in"),
        ("highway", "both gates of one tensor"),
    ],
)
def test_an_identity_skip_says_what_comes_of_it(operation: str, gives: str) -> None:
    message, hint = messages(skip(operation=operation))[0]
    assert (
        message == f"nothing stands between the record 'a' at '0' and this Apply: {operation} gives {gives}"
    )
    assert hint == "put the layers of the branch between them, or take both out"


def test_messages_have_the_figures() -> None:
    assert messages(skip(nn.Linear(1, 4)), (2, 1))[0][0] == (
        "the record 'a' of shape (2, 1) is stretched to (2, 4) by broadcasting"
    )
    grouped = skip(nn.Conv1d(8, 32, 1, groups=8), nn.ReLU(), projects=True)
    assert messages(grouped, (2, 8, 5))[0][0] == (
        "the projection has 288 parameters, the 2 layers beside it have 64"
    )
    pooled = skip(nn.MaxPool1d(2), projects=True)
    assert messages(pooled, (2, 4, 6))[0][0] == (
        "the projection has 20 parameters, the layer beside it has none"
    )
    assert messages(skip(linear(), projects=True)) == [
        (
            "the record 'a' has need_projection=True and no skip needs it: the sizes are the same",
            "leave it out, unless other widths are to come; it costs nothing",
        )
    ]
    own = ResidualSequential(
        Record(True, "a"), nn.Linear(4, 8), Apply(record_name="a", projection=nn.Linear(4, 8))
    )
    assert messages(own)[0][0].endswith("no skip needs it: the skip has a projection of its own")


def test_a_tensor_that_a_layer_of_ones_own_hands_on_changed_is_no_identity() -> None:
    assert found(skip(Scale())) == []
    assert torch.equal(skip(Scale())(torch.ones(1)), torch.full((1,), 2.5))
