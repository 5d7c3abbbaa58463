"""``rescli lint``: the diagnostics of each block below its name, and how many there are."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rescli.render.diagnostic_lines import diagnostic_lines
from rescli.render.style import wrapped
from rescli.units import format_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rescli.graph.model import LintedBlock, Severity
    from rescli.render.style import Style

_SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


def render_lint_text(blocks: Sequence[LintedBlock], style: Style) -> str:
    """Write what was found for a reader; blocks with nothing to say about them are counted only.

    Args:
        blocks: The blocks, in order.
        style: How wide, and with which characters and colours.
    """
    return "\n".join(_lines(blocks, style)) + "\n"


def _lines(blocks: Sequence[LintedBlock], style: Style) -> Iterator[str]:
    for block in blocks:
        if not block.diagnostics:
            continue
        yield style.paint(style.shown(block.target), "bold")
        for each in block.diagnostics:
            yield from diagnostic_lines(each, style)
        yield ""
    yield from wrapped(_summary(blocks), style.width, "  ")


def _summary(blocks: Sequence[LintedBlock]) -> str:
    counts = Counter(each.severity for block in blocks for each in block.diagnostics)
    found = [_counted(counts[severity], severity) for severity in _SEVERITIES if counts[severity]]
    return f"{_counted(len(blocks), 'block')}: {', '.join(found) or 'nothing found'}"


def _counted(number: int, thing: str) -> str:
    return f"{format_count(number)} {thing}{'' if number == 1 else 's'}"
