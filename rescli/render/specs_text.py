"""The shipped specs, a line each."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rescli.spec.model import ShippedSpec

_QUICK = "quick"


def render_specs_text(specs: Sequence[ShippedSpec]) -> str:
    """Write name, quick mark and summary of each spec, aligned.

    Args:
        specs: What ships, in the order of the lines.
    """
    width = max((len(spec.name) for spec in specs), default=0)
    lines = (
        f"{spec.name:<{width}}  {_QUICK if spec.quick else '':<{len(_QUICK)}}  {spec.summary}"
        for spec in specs
    )
    return "".join(f"{line.rstrip()}\n" for line in lines)
