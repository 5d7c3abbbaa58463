"""From the text of a TARGET to what is meant by it: a file, a module, or a spec that ships with rescli."""

from __future__ import annotations

import ast
import difflib
import functools
import re
import sys
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rescli.errors import SpecError
from rescli.spec.model import ShippedSpec

if TYPE_CHECKING:
    from collections.abc import Iterable

_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_FORMS = "a TARGET is spec.py, spec.py:name, package.module:name, or a shipped spec (rescli specs lists them)"


@dataclass(frozen=True, slots=True)
class Target:
    """What a TARGET means.

    Args:
        text: The text as it was typed.
        kind: Whether it is a file of the user's, an importable module, or a shipped spec.
        source: The file as it was typed, the dotted name of the module, or the shipped name.
        path: The file to load; None for a module, which Python's import finds.
        name: The one block that is meant, or None for all that the file lists.
    """

    text: str
    kind: Literal["file", "module", "shipped"]
    source: str
    path: Path | None
    name: str | None

    def label(self, block: str) -> str:
        """Say in results where a block comes from, in a form that is a TARGET again.

        Args:
            block: The variable or function that gave the block.
        """
        if self.kind == "shipped":
            return f"shipped:{self.source}"
        return f"{self.source}:{block}"


def shipped_specs() -> tuple[ShippedSpec, ...]:
    """List the specs that come with rescli, by name. Their files are read, not run.

    Example:
        >>> "resnet18" in [spec.name for spec in shipped_specs()]
        True
    """
    return tuple(_describe(name, path) for name, path in _shipped_files().items())


def quick_targets() -> tuple[str, ...]:
    """List the shipped specs that a command takes when no TARGET was given."""
    return tuple(spec.name for spec in shipped_specs() if spec.quick)


@functools.cache
def _shipped_files() -> dict[str, Path]:
    package = Path(__file__).parent.parent
    # In a wheel they lie inside the package, in a checkout beside it.
    installed = package / "_specs"
    folder = installed if installed.is_dir() else package.parent / "specs"
    return {path.stem: path for path in sorted(folder.glob("*.py")) if not path.name.startswith("_")}


def _describe(name: str, path: Path) -> ShippedSpec:
    tree = ast.parse(path.read_bytes(), filename=str(path))
    summary = (ast.get_docstring(tree) or "").partition("\n")[0].rstrip(".")
    return ShippedSpec(name=name, path=path, summary=summary, quick=any(map(_says_quick, tree.body)))


def _says_quick(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Assign)
        and any(isinstance(name, ast.Name) and name.id == "quick" for name in statement.targets)
        and isinstance(statement.value, ast.Constant)
        and statement.value.value is True
    )


def _is_file(path: str | Path) -> bool:
    try:
        return Path(path).is_file()
    except (OSError, ValueError):  # too long for the system, or with a NUL in it
        return False


def _is_folder(path: str | Path) -> bool:
    try:
        return Path(path).is_dir()
    except (OSError, ValueError):
        return False


def parse_target(text: str) -> Target:
    """Find out what a TARGET means, without running anything.

    Args:
        text: As typed. A file that exists wins over everything else that the text could mean.

    Raises:
        SpecError: There is no such file, module or shipped spec; the closest one is named.
    """
    if _is_file(text):
        return _file_target(text, text, None)
    head, colon, name = text.rpartition(":")
    # What follows the colon of C:\nets\spec.py is a path, no name.
    if not colon or not name.isidentifier():
        return _whole(text)
    if _is_file(head):
        return _file_target(text, head, name)
    if head == "shipped":
        return _shipped_target(text, name, None)
    if head in _shipped_files():
        return _shipped_target(text, head, name)
    if _looks_like_path(head):
        raise _no_such_file(head)
    return _module_target(text, head, name)


def _file_target(text: str, source: str, name: str | None) -> Target:
    return Target(text=text, kind="file", source=source, path=Path(source), name=name)


def _shipped_target(text: str, source: str, name: str | None) -> Target:
    path = _shipped_files().get(source)
    if path is None:
        raise SpecError(f"no spec named {source} ships with rescli", hint=_closest(source, _shipped_files()))
    return Target(text=text, kind="shipped", source=source, path=path, name=name)


def _whole(text: str) -> Target:
    """Settle a TARGET that names no block."""
    if text in _shipped_files():
        return _shipped_target(text, text, None)
    if text and _is_folder(text):
        specs = sorted(str(path) for path in Path(text).glob("*.py"))
        raise SpecError(
            f"{text} is a folder, not a spec",
            hint=f"name a file in it: {', '.join(specs[:3])}" if specs else _FORMS,
        )
    if _looks_like_path(text):
        raise _no_such_file(text)
    if "." in text and _MODULE.fullmatch(text) and _is_importable(text):
        raise SpecError(f"{text} names a module, but no block in it", hint=f"for instance {text}:name")
    with_ending = f"{text}.py"
    if text and _is_file(with_ending):
        raise SpecError(f"there is no file {text}", hint=f"did you mean {with_ending}?")
    raise SpecError(f"there is no file and no shipped spec {text!r}", hint=_closest(text, _shipped_files()))


def _module_target(text: str, module: str, name: str) -> Target:
    if not _MODULE.fullmatch(module):
        raise SpecError(f"there is no file {module!r}, and a module cannot have that name", hint=_FORMS)
    if not _is_importable(module):
        otherwise = "modules are looked for in this folder and where Python looks"
        hint = _closest(module, _shipped_files(), otherwise=otherwise)
        raise SpecError(f"there is no file, module or shipped spec {module}", hint=hint)
    return Target(text=text, kind="module", source=module, path=None, name=name)


def _is_importable(module: str) -> bool:
    """Say whether the outermost package is there: to find what is inside, Python would have to import it."""
    package = module.partition(".")[0]
    return package in sys.modules or PathFinder.find_spec(package, ["", *sys.path]) is not None


def _looks_like_path(text: str) -> bool:
    return text.endswith(".py") or "/" in text or "\\" in text


def _no_such_file(text: str) -> SpecError:
    path = Path(text)
    if not _is_folder(path.parent):
        return SpecError(f"there is no file {text}: there is no folder {path.parent}")
    here = {neighbour.name: str(neighbour) for neighbour in path.parent.glob("*.py")}
    close = difflib.get_close_matches(path.name, here, n=1)
    if close:
        return SpecError(f"there is no file {text}", hint=f"did you mean {here[close[0]]}?")
    return SpecError(f"there is no file {text}", hint=_closest(path.stem, _shipped_files()))


def _closest(text: str, names: Iterable[str], *, otherwise: str = _FORMS) -> str:
    close = difflib.get_close_matches(text, names, n=1)
    return f"did you mean {close[0]}?" if close else otherwise
