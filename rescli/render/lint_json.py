"""``rescli lint --format json``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rescli.render.document import document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rescli.graph.model import LintedBlock


def render_lint_json(blocks: Sequence[LintedBlock]) -> str:
    """Write what was found as a document of the schema ``rescli.lint/1``.

    Args:
        blocks: The blocks, in order; those with nothing to say about them too.
    """
    return document("rescli.lint/1", blocks=blocks)
