"""Feature dimensions that no layer told, and a run that needed more than the layout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rescli.graph.diagnostics.rule import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rescli.graph.diagnostics.evidence import Evidence, LayoutGuess

_VERBS = {"concat": "concat joins", "projection": "the projection works", "gates": "the gates work"}


def layout_guessed(evidence: Evidence) -> Iterator[Finding]:
    """Find feature dimensions that were guessed where nothing else would have run."""
    for guess in evidence.guesses:
        if guess.is_forced:
            yield Finding(
                guess.path,
                f"{_found(guess)}; with these shapes no other would do",
                f"dim={guess.dim} in the Apply says it once and for all",
            )


def layout_ambiguous(evidence: Evidence) -> Iterator[Finding]:
    """Find feature dimensions that were guessed where another one would have run as well."""
    for guess in evidence.guesses:
        if not guess.is_forced:
            other = 1 if guess.dim != 1 else len(guess.shape) - 1
            yield Finding(
                guess.path,
                f"{_found(guess)}; dimension {other} would do as well",
                f"pass dim={guess.dim} to the Apply if that is right, dim={other} if features lie there",
            )


def _found(guess: LayoutGuess) -> str:
    return (
        f"no layer tells where the features of {guess.shape} lie: {_VERBS[guess.purpose]} along "
        f"dimension {guess.dim}, a guess"
    )


def needs_data(evidence: Evidence) -> Iterator[Finding]:
    """Say why a large block ran on the CPU."""
    if evidence.needs_data is not None:
        yield evidence.needs_data
