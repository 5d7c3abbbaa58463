"""What a spec imports from its own folder, kept apart from what another spec imports from its own."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Which folder gave each top-level module that a spec imported from beside itself.
_folder_of: dict[str, Path] = {}


@contextlib.contextmanager
def importing_from(folder: Path | None) -> Iterator[None]:
    """Let code import what lies beside it, as Python does for a script.

    Two specs in two folders may each have a ``common.py`` of their own: a module that an earlier spec
    took from its folder makes way where this folder has one of the same name.

    Args:
        folder: The folder of the spec; None to import nothing but what Python finds anyway.
    """
    if folder is None:
        yield
        return
    for name, owner in list(_folder_of.items()):
        if owner != folder and _lies_in(folder, name):
            _forget(name)
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    # A file written since Python last looked into the folder would be overlooked.
    sys.path_importer_cache.pop(str(folder), None)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # the spec may have taken it out itself
            sys.path.remove(str(folder))
        new = {name.partition(".")[0] for name in set(sys.modules) - before}
        _folder_of.update({name: folder for name in new if _lies_in(folder, name)})


def _lies_in(folder: Path, name: str) -> bool:
    return (folder / f"{name}.py").is_file() or (folder / name).is_dir()


def _forget(package: str) -> None:
    del _folder_of[package]
    for name in list(sys.modules):
        if name == package or name.startswith(f"{package}."):
            del sys.modules[name]
