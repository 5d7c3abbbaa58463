"""The table of all diagnostics: stable codes, documented, each shown firing, and the order in which they come."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from torch import nn

from rescli.graph.diagnose import RULES, diagnose
from rescli.graph.diagnostics.evidence import Evidence
from tests.rescli.graph.diagnostics import (
    test_failures,
    test_layers,
    test_layout,
    test_names,
    test_parameters,
    test_skips,
    test_weights,
)
from tests.rescli.graph.finding import diagnostics_of, found, linear
from torchresidual import Apply, LearnableAlpha, Record, ResidualSequential

DOCUMENT = Path(__file__).parents[3] / "docs" / "DIAGNOSTICS.md"
HEADING = re.compile(r"^### `([a-z-]+)` \((error|warning|note)\)$", re.MULTILINE)
TOPICS = (test_names, test_failures, test_skips, test_layers, test_weights, test_parameters, test_layout)
# Its evidence is made by the tracer alone, whose tests show it.
WITHOUT_CASE = {"needs-data"}


def documented(text: str) -> list[tuple[str, str]]:
    """Give code and severity of each entry."""
    return HEADING.findall(text)


def test_every_diagnostic_has_its_entry_with_the_right_severity() -> None:
    assert sorted(documented(DOCUMENT.read_text(encoding="utf-8"))) == sorted(
        (rule.code, rule.severity) for rule in RULES
    )


def test_an_entry_of_another_severity_would_be_seen() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert documented(text.replace("`unused-record` (warning)", "`unused-record` (note)")) != documented(text)


def test_every_code_is_unique_and_shown_firing() -> None:
    codes = [rule.code for rule in RULES]
    assert len(set(codes)) == len(codes)
    fired = {code for topic in TOPICS for case in topic.CASES.values() for code, _, _ in case.found}
    assert fired | WITHOUT_CASE == set(codes)


def test_the_gravest_come_first_and_then_the_order_of_the_layers() -> None:
    block = ResidualSequential(
        Record(name="unused"),
        Record(name="a"),
        linear(),
        Apply(record_name="a", alpha=LearnableAlpha(0.5)),
        Record(name="a"),
        nn.ReLU(inplace=True),
        Apply(record_name="a"),
        nn.Dropout(0.1),
        nn.Linear(3, 3),
    )
    assert found(block) == [
        ("layer-failed", "error", "8"),
        ("unused-record", "warning", "0"),
        ("in-place-after-record", "warning", "5"),
        ("dropout-after-apply", "warning", "7"),
        ("alpha-weight-decay", "note", "3.alpha"),
    ]


def test_a_block_that_stops_early_still_gets_what_its_structure_tells() -> None:
    block = ResidualSequential(
        nn.Linear(3, 3),
        Record(name="a"),
        Apply("concat", "nowhere", alpha=LearnableAlpha(1.0)),
        Record(name="b"),
        Record(name="b"),
        Apply(record_name="b"),
    )
    assert found(block) == [
        ("layer-failed", "error", "0"),
        ("unknown-record", "error", "2"),
        ("unused-record", "warning", "1"),
        ("alpha-ignored", "warning", "2"),
        ("alpha-saturated", "warning", "2.alpha"),
        ("record-overwritten", "warning", "3"),
        ("alpha-weight-decay", "note", "2.alpha"),
    ]


def test_every_finding_has_a_message_a_hint_and_a_place_in_its_block() -> None:
    for case in (case for topic in TOPICS for case in topic.CASES.values()):
        block = case.faulty()
        places = {path for path, _ in block.named_modules(remove_duplicate=False)}
        for each in diagnostics_of(block, case.shape, backward=case.backward):
            assert each.message
            assert each.hint
            assert each.path in places


@pytest.mark.parametrize("code", [rule.code for rule in RULES if rule.code not in WITHOUT_CASE])
def test_every_diagnostic_fires_on_its_fault_and_not_on_the_twin(code: str) -> None:
    cases = [case for topic in TOPICS for case in topic.CASES.values()]
    case = next(case for case in cases if code in {each for each, _, _ in case.found})
    faulty, twin = (
        {each for each, _, _ in found(make(), case.shape, backward=case.backward)}
        for make in (case.faulty, case.twin)
    )
    assert code in faulty
    assert code not in twin


def test_a_twin_that_is_no_better_would_be_seen() -> None:
    case = test_names.CASES["an unknown record"]
    with pytest.raises(AssertionError):
        replace(case, twin=case.faulty).check()
    with pytest.raises(AssertionError):
        replace(case, faulty=case.twin).check()


def test_the_five_mistakes_with_names_have_each_a_code_of_its_own() -> None:
    block = ResidualSequential(
        Record(name="unused"),
        Record(name="twice"),
        Record(name="twice"),
        linear(),
        Apply(record_name="twice"),
        Apply(record_name="twice"),
        Apply(record_name="nowhere"),
        Apply(record_name="late"),
        linear(),
        Record(name="late"),
    )
    assert found(block) == [
        ("unknown-record", "error", "6"),
        ("apply-before-record", "error", "7"),
        ("unused-record", "warning", "0"),
        ("record-overwritten", "warning", "1"),
        ("skip-applied-twice", "note", "2"),
    ]


def test_of_nothing_there_is_nothing_to_say() -> None:
    assert diagnose(Evidence(layers=(), edges=(), failure=None, placements=())) == ()
