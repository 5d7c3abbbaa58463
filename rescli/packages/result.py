"""Facts about installed packages."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Distribution:
    """An installed distribution.

    Args:
        name: As pip calls it.
        version: Its version.
    """

    name: str
    version: str


@dataclass(frozen=True, slots=True)
class LibraryFacts:
    """Where ``import torchresidual`` leads.

    Args:
        path: The folder it is imported from, or None if it cannot be imported.
        ours: Whether that is the library that came with this rescli.
        also_provided_by: Other distributions that bring a package of the same name, as the published
            torchresidual does.
    """

    path: str | None
    ours: bool
    also_provided_by: tuple[Distribution, ...]


@dataclass(frozen=True, slots=True)
class PackageFacts:
    """What a bug report needs to know of the installed packages.

    Args:
        versions: Version of each run-time dependency and optional extra; None where it is not installed.
        torchresidual: Whether our library is the one that is imported.
    """

    versions: dict[str, str | None]
    torchresidual: LibraryFacts
