"""``rescli specs``: what ships with rescli."""

from __future__ import annotations

from typing import Annotated

from rescli.cli.console import write_result
from rescli.cli.options import OutputOption, choose_format, format_option
from rescli.render.specs_json import render_specs_json
from rescli.render.specs_text import render_specs_text
from rescli.spec.target import shipped_specs

_FORMATS = ("text", "json")


def specs(
    format_name: Annotated[str | None, format_option(*_FORMATS)] = None,
    output: OutputOption = None,
) -> None:
    """List the specs that ship with rescli.

    Each name is a TARGET. Those marked quick are what commands take that were given no TARGET.
    """
    found = shipped_specs()
    render = (
        render_specs_json if choose_format(format_name, output, _FORMATS) == "json" else render_specs_text
    )
    write_result(render(found), output)
