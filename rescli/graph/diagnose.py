"""What a reader should know about a block: the table of all diagnostics, and what it finds.

Codes are stable; each has one meaning and one severity. docs/DIAGNOSTICS.md says what each is about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rescli.graph.diagnostics import failures, layers, layout, names, parameters, skips, weights
from rescli.graph.diagnostics.rule import Rule
from rescli.graph.model import Diagnostic

if TYPE_CHECKING:
    from rescli.graph.diagnostics.evidence import Evidence
    from rescli.graph.model import Severity

RULES = (
    Rule("unknown-record", "error", names.unknown_record),
    Rule("apply-before-record", "error", names.apply_before_record),
    Rule("shape-mismatch", "error", failures.shape_mismatch),
    Rule("in-place-write", "error", failures.in_place_write),
    Rule("layer-failed", "error", failures.layer_failed),
    Rule("backward-failed", "error", parameters.backward_failed),
    Rule("unused-record", "warning", names.unused_record),
    Rule("record-overwritten", "warning", names.record_overwritten),
    Rule("identity-skip", "warning", skips.identity_skip),
    Rule("broadcasting-skip", "warning", skips.broadcasting_skip),
    Rule("oversized-projection", "warning", skips.oversized_projection),
    Rule("in-place-after-record", "warning", layers.in_place_after_record),
    Rule("dropout-after-apply", "warning", layers.dropout_after_apply),
    Rule("alpha-saturated", "warning", weights.alpha_saturated),
    Rule("alpha-out-of-reach", "warning", weights.alpha_out_of_reach),
    Rule("alpha-ignored", "warning", weights.alpha_ignored),
    Rule("layout-ambiguous", "warning", layout.layout_ambiguous),
    Rule("no-gradient", "warning", parameters.no_gradient),
    Rule("skip-applied-twice", "note", names.skip_applied_twice),
    Rule("unneeded-projection", "note", skips.unneeded_projection),
    Rule("alpha-weight-decay", "note", weights.alpha_weight_decay),
    Rule("batch-second", "note", layers.batch_second),
    Rule("unsettled-parameters", "note", parameters.unsettled_parameters),
    Rule("layout-guessed", "note", layout.layout_guessed),
    Rule("needs-data", "note", layout.needs_data),
)
_GRAVEST_FIRST: tuple[Severity, ...] = ("error", "warning", "note")


def diagnose(evidence: Evidence) -> tuple[Diagnostic, ...]:
    """Find what there is to say about a block: the gravest first, then in the order of its layers.

    Args:
        evidence: The facts about the block.
    """
    found = [
        Diagnostic(rule.code, rule.severity, finding.path, finding.message, finding.hint)
        for rule in RULES
        for finding in rule.find(evidence)
    ]
    if len(found) < 2:
        return tuple(found)
    places = _places(evidence)

    def order(each: Diagnostic) -> tuple[int, int, str]:
        return _GRAVEST_FIRST.index(each.severity), _place(each.path, places), each.path

    return tuple(sorted(found, key=order))


def _places(evidence: Evidence) -> dict[str, int]:
    """Number the paths in the order in which they ran; those that did not run stand where the structure has them."""
    places: dict[str, int] = {}
    for row in evidence.layers:
        places.setdefault(row.path, row.index)
    end = len(evidence.layers)
    for index, place in enumerate(evidence.placements):
        places.setdefault(place.path, end + index)
    return places


def _place(path: str, places: dict[str, int]) -> int:
    """Find the place of a module, or of the nearest one around it; the block itself comes last."""
    while path and path not in places:
        path = path.rpartition(".")[0]
    return places[path] if path else len(places) + 1
