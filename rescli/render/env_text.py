"""The environment as lines to paste into a bug report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rescli.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rescli.bench.result import Environment
    from rescli.packages.result import LibraryFacts, PackageFacts

_REINSTALL = (
    "  pip install --force-reinstall --no-deps FILE\n"
    "where FILE is the wheel or the checkout that rescli came from."
)


def render_env_text(environment: Environment, packages: PackageFacts) -> str:
    """Write the environment, a fact a line, and what is wrong with it below.

    Args:
        environment: The machine and the process.
        packages: What is installed.
    """
    facts = dict(_facts(environment, packages))
    width = max(map(len, facts))
    lines = [f"{name:<{width}}  {value}" for name, value in facts.items()]
    lines += [f"\n{advice}" for advice in _advice(packages.torchresidual)]
    return "\n".join(lines) + "\n"


def _facts(environment: Environment, packages: PackageFacts) -> Iterator[tuple[str, str]]:
    yield "rescli", environment.rescli
    yield "python", environment.python
    for name, version in packages.versions.items():
        # torch's own word tells the build as well.
        known = environment.torch if name == "torch" else version
        yield name, known or "not installed"
    yield "torchresidual", packages.torchresidual.path or "cannot be imported"
    yield "system", environment.system
    yield "cpu", environment.cpu
    yield "cores", str(environment.cores)
    yield (
        "torch threads",
        f"{environment.threads} in an operation, {environment.interop_threads} between them",
    )
    if not environment.gpus:
        yield "gpus", "none"
    for gpu in environment.gpus:
        yield f"cuda:{gpu.index}", f"{gpu.name}, {format_bytes(gpu.memory_bytes)}"
    if environment.cuda is not None:
        yield "cuda", f"{environment.cuda}, driver {environment.driver or 'unknown'}"


def _advice(library: LibraryFacts) -> Iterator[str]:
    for other in library.also_provided_by:
        yield (
            f"{other.name} {other.version} also brings a package torchresidual: "
            "the two overwrite each other's files.\n"
            f"To keep the one of rescli:\n  pip uninstall {other.name}\n{_REINSTALL}"
        )
    if library.path is None:
        yield f"torchresidual cannot be imported. To repair it:\n{_REINSTALL}"
    elif not library.ours and not library.also_provided_by:
        yield (
            f"torchresidual is imported from {library.path}, which did not come with rescli.\n"
            "Take that folder off PYTHONPATH, or start from another folder."
        )
