"""Feature dimensions that no layer tells, each beside a block where one does."""

from __future__ import annotations

import pytest
from torch import nn

from rescli.graph.diagnostics.evidence import Evidence
from rescli.graph.diagnostics.layout import needs_data
from rescli.graph.diagnostics.rule import Finding
from tests.rescli.graph.finding import Case, Scale, found, messages
from torchresidual import Apply, Record, ResidualSequential


def joined(*layers: nn.Module, dim: int | None = None) -> nn.Module:
    return ResidualSequential(Record(name="a"), *layers, Apply("concat", "a", dim=dim))


def projected(*layers: nn.Module, dim: int | None = None) -> nn.Module:
    return ResidualSequential(Record(True, "a"), *layers, Apply(record_name="a", dim=dim))


def highway(*, dim: int | None = None) -> nn.Module:
    return ResidualSequential(Record(name="a"), Scale(), Apply("highway", "a", dim=dim))


UNSETTLED = ("unsettled-parameters", "note", "2.projection_layer")

CASES = {
    "a concat that could go along either": Case(
        lambda: joined(Scale()),
        lambda: joined(Scale(), dim=1),
        [("layout-ambiguous", "warning", "2")],
        shape=(2, 3, 4),
    ),
    "a concat behind a layer that tells": Case(
        lambda: joined(Scale()),
        lambda: joined(Scale(), nn.Linear(4, 4)),
        [("layout-ambiguous", "warning", "2")],
        shape=(2, 3, 4),
    ),
    "a concat that only goes along one": Case(
        lambda: joined(Scale(2)),
        lambda: joined(Scale(2), dim=-1),
        [("layout-guessed", "note", "2")],
        shape=(2, 3, 4),
    ),
    "gates": Case(
        highway,
        lambda: highway(dim=-1),
        [("layout-ambiguous", "warning", "2"), ("unsettled-parameters", "note", "")],
        shape=(2, 3, 4),
    ),
    "a projection that a stride would explain as well": Case(
        lambda: projected(Scale(2)),
        lambda: projected(Scale(2), dim=-1),
        [("layout-ambiguous", "warning", "2"), UNSETTLED],
        shape=(2, 3, 4),
    ),
    "a projection that nothing else explains": Case(
        lambda: projected(Scale(7)),
        lambda: projected(nn.Linear(4, 7)),
        [("layout-guessed", "note", "2"), UNSETTLED],
        shape=(2, 3, 4),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_guess_is_told_and_what_a_layer_tells_is_none(name: str) -> None:
    case = CASES[name]
    codes = [code for code, _, _ in found(case.twin(), case.shape)]
    assert not {"layout-ambiguous", "layout-guessed"} & set(codes)
    assert found(case.faulty(), case.shape) == case.found


def test_of_two_dimensions_only_one_can_hold_features() -> None:
    assert found(joined(Scale()), (2, 4)) == []


def test_messages_say_what_was_taken_and_how_to_settle_it() -> None:
    assert messages(joined(Scale()), (2, 3, 4)) == [
        (
            "no layer tells where the features of (2, 3, 4) lie: concat joins along dimension 2, a guess; "  # noqa: ISC004
            "dimension 1 would do as well",
            "pass dim=2 to the Apply if that is right, dim=1 if features lie there",
        )
    ]
    assert messages(joined(Scale(2)), (2, 3, 4)) == [
        (
            "no layer tells where the features of (2, 3, 2) lie: concat joins along dimension 2, a guess; with "  # noqa: ISC004
            "these shapes no other would do",
            "dim=2 in the Apply says it once and for all",
        )
    ]


def test_a_run_that_needed_data_is_told_and_another_is_not() -> None:
    evidence = Evidence(layers=(), edges=(), failure=None, placements=())
    assert list(needs_data(evidence)) == []
    told = Evidence(
        layers=(),
        edges=(),
        failure=None,
        placements=(),
        needs_data=Finding("1", "it ran on the CPU", "all is right"),
    )
    assert list(needs_data(told)) == [Finding("1", "it ran on the CPU", "all is right")]
