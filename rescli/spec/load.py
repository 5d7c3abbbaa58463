"""From a target to the loaded spec: its namespace, and what in it is a block."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import itertools
import sys
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional

import torchresidual
from rescli.errors import SpecError
from rescli.spec.blame import blame_user, users_code
from rescli.spec.listing import list_blocks
from rescli.spec.siblings import importing_from

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rescli.spec.listing import Definition
    from rescli.spec.target import Target

_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class LoadedSpec:
    """A spec after its code has run.

    Args:
        target: What was asked for.
        module: Its namespace. It stays in ``sys.modules`` under a name of its own, so that objects of
            its classes can be copied and pickled.
        file: Where its code lies, if anywhere.
        listed: The blocks that the file defines, in order; empty for an importable module.
    """

    target: Target
    module: ModuleType
    file: Path | None
    listed: tuple[Definition, ...]

    def find(self, name: str) -> object:
        """Look up what ``spec.py:name`` names, listed or not.

        Raises:
            SpecError: The spec defines no such name; the closest one is suggested.
        """
        try:
            return getattr(self.module, name)
        except AttributeError:
            raise self._no_such_name(name) from None

    def _no_such_name(self, name: str) -> SpecError:
        known = [found for found in vars(self.module) if not found.startswith("__")]
        close = difflib.get_close_matches(name, known, n=1)
        blocks = ", ".join(definition.name for definition in self.listed)
        if close:
            hint = f"did you mean {self.target.source}:{close[0]}?"
        else:
            hint = f"its blocks are {blocks}" if blocks else ""
        return SpecError(f"{self.target.source} defines no {name}", hint=hint)


def load(target: Target) -> LoadedSpec:
    """Run the code of a spec.

    Args:
        target: A file, whose namespace holds ``torch``, ``nn``, ``F``, ``OrderedDict`` and the public
            names of torchresidual from the start; or a module, which is imported as Python does.

    Raises:
        SpecError: The file cannot be read, or its code does not run to its end.
    """
    if target.path is None:
        return _load_module(target)
    return _load_file(target, target.path)


def _load_module(target: Target) -> LoadedSpec:
    with users_code(None, f"{target.source} could not be imported"), importing_from(Path.cwd()):
        module = importlib.import_module(target.source)
    file = getattr(module, "__file__", None)
    return LoadedSpec(target=target, module=module, file=Path(file) if file else None, listed=())


def _load_file(target: Target, path: Path) -> LoadedSpec:
    file = path.resolve()
    try:
        source = file.read_bytes()
    except OSError as error:
        raise SpecError(f"{target.source} cannot be read: {error.strerror}") from error
    module = ModuleType(f"_rescli_spec_{next(_numbers)}_{path.stem}")
    module.__file__ = str(file)
    vars(module).update(_given_names())
    # Dataclasses, pickle and string annotations look a class's module up there.
    sys.modules[module.__name__] = module
    try:
        with (
            users_code(file, f"{target.source} could not be loaded"),
            importing_from(file.parent),
            _without_arguments(file),
        ):
            code = compile(source, str(file), "exec", dont_inherit=True)
            exec(code, vars(module))  # noqa: S102 - running the user's file is the point
    except BaseException:
        del sys.modules[module.__name__]
        raise
    # A module whose __init__ did not call super().__init__() raises when it is looked at.
    with blame_user(file, f"{target.source} could not be loaded"):
        listed = list_blocks(module, source)
    return LoadedSpec(target=target, module=module, file=file, listed=listed)


@contextlib.contextmanager
def _without_arguments(file: Path) -> Iterator[None]:
    """Let a spec that parses a command line find an empty one, not rescli's."""
    before = sys.argv
    sys.argv = [str(file)]
    try:
        yield
    finally:
        sys.argv = before


def _given_names() -> dict[str, object]:
    """Collect what a spec may use without importing it."""
    given: dict[str, object] = {"torch": torch, "nn": nn, "F": functional, "OrderedDict": OrderedDict}
    given.update({name: getattr(torchresidual, name) for name in torchresidual.__all__})
    return given
