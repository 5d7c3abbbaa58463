"""The environment as a JSON document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rescli.render.document import document

if TYPE_CHECKING:
    from rescli.bench.result import Environment
    from rescli.packages.result import PackageFacts


def render_env_json(environment: Environment, packages: PackageFacts) -> str:
    """Write the environment as ``rescli.env/1``.

    Args:
        environment: The machine and the process.
        packages: What is installed.
    """
    return document(
        "rescli.env/1",
        environment=environment,
        packages=packages.versions,
        torchresidual=packages.torchresidual,
    )
