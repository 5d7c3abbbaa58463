"""``rescli env``: what a bug report needs."""

from __future__ import annotations

from typing import Annotated

from rescli.cli.console import write_result
from rescli.cli.options import OutputOption, choose_format, format_option
from rescli.packages.find import find_packages
from rescli.render.env_json import render_env_json
from rescli.render.env_text import render_env_text

_FORMATS = ("text", "json")


def env(
    format_name: Annotated[str | None, format_option(*_FORMATS)] = None,
    output: OutputOption = None,
) -> None:
    """Print what a bug report needs: versions, CPU, GPUs, threads.

    It also says whether another installed distribution brings a package torchresidual, which would get
    in the way of ours.
    """
    render = render_env_json if choose_format(format_name, output, _FORMATS) == "json" else render_env_text
    from rescli.bench.environment import describe_environment

    write_result(render(describe_environment(), find_packages()), output)
