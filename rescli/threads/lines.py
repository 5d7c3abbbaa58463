"""Points between the source lines of the user's code and of torchresidual, in the thread that runs them."""

from __future__ import annotations

import contextlib
import dis
import inspect
import linecache
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from rescli.threads.result import Point

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType

    from torch import nn

_TORCH = Path(torch.__file__).parent
# Of ``python -c``, and of what dataclasses write, everybody's: its lines say nothing.
_NO_FILE = "<string>"
# The file of the forwards that torchresidual writes out as source when a block is made.
_WRITTEN = "<forward written by torchresidual>"
_STORES = (
    *("STORE_ATTR", "DELETE_ATTR", "STORE_SUBSCR", "DELETE_SUBSCR", "STORE_GLOBAL", "DELETE_GLOBAL"),
    *("STORE_SLICE", "DELETE_SLICE"),
)
# Names that say that an object is changed, as those of torch do that end in an underscore.
_CHANGES = frozenset(
    (
        *("append", "appendleft", "add", "clear", "discard", "extend", "insert", "pop", "popleft", "remove"),
        *("setdefault", "update", "setattr", "delattr", "register_buffer", "register_parameter"),
        *("add_module", "register_module", "register_forward_hook", "register_forward_pre_hook"),
    )
)


def line_files(module: nn.Module, spec_file: Path | None) -> frozenset[str]:
    """Find the files whose lines are points: the spec's, and those of the layers' classes outside PyTorch.

    Of torchresidual all files count, as its layers work together.

    Args:
        module: What is checked.
        spec_file: The file it comes from, or None.
    """
    files = {str(spec_file)} if spec_file is not None else set()
    for kind in {type(layer) for layer in module.modules()}:
        source = getattr(sys.modules.get(kind.__module__), "__file__", None) or _file_of(kind)
        if source not in (None, _NO_FILE) and _TORCH not in Path(source).parents:
            files.add(source)
            if kind.__module__.partition(".")[0] == "torchresidual":
                files |= {_WRITTEN, *(str(path) for path in Path(source).parent.glob("*.py"))}
    return frozenset(files)


def _file_of(kind: type) -> str | None:
    """Find a class's file by its code, where its module has none, as in a notebook."""
    forward = inspect.unwrap(getattr(kind, "forward", None) or kind)
    code = getattr(forward, "__code__", None)
    return None if code is None else str(code.co_filename)


class LineTracer:
    """Calls ``visit`` before each line of some files.

    Args:
        files: Their names, as the code objects have them.
        visit: What to call, in the thread that runs the line.
    """

    def __init__(self, files: frozenset[str], visit: Callable[[Point], None]) -> None:
        self._files = files
        self._visit = visit

    @contextlib.contextmanager
    def tracing(self) -> Iterator[None]:
        """Trace the calling thread; a debugger or a coverage tool in it rests meanwhile."""
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(before)

    def _enter(self, frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        if event == "call" and frame.f_code.co_filename in self._files:
            return self._step
        return None

    def _step(self, frame: FrameType, event: str, _: object) -> Callable[..., Any]:
        if event == "line":
            self._visit(_point_of(frame.f_code, frame.f_lineno))
        return self._step


# A code object compares by its content: two that are equal have equal points.
_POINTS: dict[tuple[CodeType, int], Point] = {}


def _point_of(code: CodeType, line: int) -> Point:
    if (code, line) not in _POINTS:
        # Of one code all at once; what a thread changes here it only writes twice.
        writing = _writing_lines(code)
        lines = {own for *_, own in code.co_lines() if own is not None} | {line}
        for own in lines:
            _POINTS[code, own] = Point(
                "line",
                "",
                code.co_name,
                file=Path(code.co_filename).name,
                line=own,
                source=linecache.getline(code.co_filename, own).strip(),
                writes=own in writing,
            )
    return _POINTS[code, line]


def _writing_lines(code: CodeType) -> set[int]:
    """Find the lines that write into an object: by its attributes, by its items, or by a telling name."""
    spans = [(start, end, line) for start, end, line in code.co_lines() if line is not None]
    offsets = [instruction.offset for instruction in dis.get_instructions(code) if _writes(instruction)]
    return {line for start, end, line in spans for offset in offsets if start <= offset < end}


def _writes(instruction: dis.Instruction) -> bool:
    if instruction.opname in _STORES:
        return True
    name = instruction.argval
    if not (instruction.opname.startswith("LOAD_") and isinstance(name, str)):
        return False
    return name in _CHANGES or (name.endswith("_") and not name.startswith("_"))
