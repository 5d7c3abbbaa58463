"""The shipped specs as a JSON document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rescli.render.document import document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rescli.spec.model import ShippedSpec


def render_specs_json(specs: Sequence[ShippedSpec]) -> str:
    """Write the specs as ``rescli.specs/1``.

    Args:
        specs: What ships.
    """
    return document(
        "rescli.specs/1",
        specs=[{"name": s.name, "quick": s.quick, "summary": s.summary, "path": str(s.path)} for s in specs],
    )
