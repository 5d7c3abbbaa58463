"""``rescli show --format json``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rescli.render.document import document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rescli.graph.model import BlockGraph


def render_show_json(graphs: Sequence[BlockGraph]) -> str:
    """Write blocks as a document of the schema ``rescli.show/1``.

    Args:
        graphs: The blocks, in order.
    """
    return document("rescli.show/1", blocks=graphs)
