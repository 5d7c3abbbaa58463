"""Alphas that hardly learn, have no effect, or are pulled away by weight decay."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rescli.graph.diagnostics.rule import Finding, counted, listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rescli.graph.diagnostics.evidence import Evidence

_SATURATED = 0.99
# A network of so many blocks has names that a pattern tells better than a list.
_LISTED_PARAMETERS = 100


def alpha_saturated(evidence: Evidence) -> Iterator[Finding]:
    """Find LearnableAlphas so near a bound that they hardly learn."""
    for alpha in evidence.alphas:
        if alpha.tanh is not None and _SATURATED < alpha.tanh < 1.0:
            share = 100 * (1 - alpha.tanh**2)
            yield Finding(
                alpha.path,
                f"LearnableAlpha is at {alpha.value:.4g}, next to its bound, where |tanh| is {alpha.tanh:.4g}: "
                f"its gradient is {share:.2g}% of the largest",
                f"start it between {alpha.free_from:.4g} and {alpha.free_to:.4g}, or widen its bounds",
            )


def alpha_out_of_reach(evidence: Evidence) -> Iterator[Finding]:
    """Find LearnableAlphas whose gradient is zero, or no number: no training brings them back."""
    for alpha in evidence.alphas:
        if alpha.tanh is None or alpha.tanh < 1.0:
            continue
        is_number = math.isfinite(alpha.tanh)
        found = "its gradient is 0" if is_number else "its raw parameter is not a number"
        yield Finding(
            alpha.path,
            f"training cannot move the LearnableAlpha at {alpha.value:.4g}: {found}",
            f"reset_parameters() restores its start; between {alpha.free_from:.4g} and {alpha.free_to:.4g} it learns",
        )


def alpha_ignored(evidence: Evidence) -> Iterator[Finding]:
    """Find alphas given to operations that use none."""
    for place in evidence.placements:
        if place.ignores_alpha:
            yield Finding(
                place.path,
                f"{place.operation} does not use alpha: the one given has no effect",
                "leave alpha out; scale= weighs the current tensor",
            )


def alpha_weight_decay(evidence: Evidence) -> Iterator[Finding]:
    """Name the parameters that weight decay would pull to the middle of their range."""
    if not evidence.alphas:
        return
    names = [alpha.parameter for alpha in evidence.alphas]
    yield Finding(
        evidence.alphas[0].path if len(names) == 1 else "",
        f"weight decay would pull {counted(len(names), 'LearnableAlpha')} to the middle of the range: "
        f"{listed(names, _LISTED_PARAMETERS)}",
        "give these parameters a group of the optimizer with weight_decay=0",
    )
