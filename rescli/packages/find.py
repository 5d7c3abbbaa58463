"""Looking up what is installed, from its metadata alone: nothing is imported."""

from __future__ import annotations

import importlib.util
from importlib import metadata
from pathlib import Path

from rescli.packages.result import Distribution, LibraryFacts, PackageFacts

_LIBRARY = "torchresidual"
_US = "rescli"
_NAMES = ("torch", "typer", "rich", "torchinfo", "numpy", "onnx", "onnxscript", "onnxruntime", "matplotlib")


def find_packages() -> PackageFacts:
    """Collect the versions of what rescli uses, and where ``torchresidual`` comes from."""
    return PackageFacts(
        versions={name: _version(name) for name in _NAMES},
        torchresidual=_find_library(),
    )


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _find_library() -> LibraryFacts:
    found = importlib.util.find_spec(_LIBRARY)
    origin = found.origin if found else None
    folder = Path(origin).resolve().parent if origin else None
    beside_us = Path(__file__).resolve().parents[2] / _LIBRARY
    return LibraryFacts(
        path=str(folder) if folder else None,
        ours=folder == beside_us,
        also_provided_by=_others_with(_LIBRARY),
    )


def _others_with(package: str) -> tuple[Distribution, ...]:
    names = sorted({name.lower() for name in metadata.packages_distributions().get(package, [])} - {_US})
    return tuple(Distribution(name, metadata.version(name)) for name in names)
