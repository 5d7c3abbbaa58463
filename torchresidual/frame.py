"""Where recorded tensors live while a forward runs: in a frame that belongs to that one call.

Nothing is written to a module. Each call of ``ResidualSequential.forward`` makes a ``Frame``, puts it into the
thread-local ``_context`` for modules that must find it from inside (a Record in a layer of the user's own, an
Apply with a hook), and takes it out again when it ends, also by an exception. Threads therefore never meet, and
DataParallel replicas, copies and pickles have nothing to share.

Flask's request context is the same idea: https://flask.palletsprojects.com/en/stable/reqcontext/
"""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchresidual.memory import version_of

if TYPE_CHECKING:
    from torch import Tensor, nn

    from torchresidual.plan import Place, Plan
    from torchresidual.record import Record
    from torchresidual.sequential import ResidualSequential

# What a forward running in this thread has set: `current_sequential` (the innermost block) and `frame`.
_context = threading.local()


@dataclass(frozen=True, slots=True)
class RecordedTensor:
    """A tensor that a Record has saved in the forward that is running.

    Args:
        record: The Record that saved it.
        name: The name it was saved under, given or automatic.
        tensor: The tensor, before any projection.
        path: The Record's place in ``block``, for instance ``"1.0"``; empty for a Record inside a layer of the
            user's own.
        block: The block whose forward the Record ran in.
        version: Autograd's count of in-place writes at that moment, or None where nobody counts.
    """

    record: Record
    name: str
    tensor: Tensor
    path: str
    block: nn.Module
    version: int | None


class Frame:
    """What one call of one block has recorded so far.

    Args:
        block: The block whose forward this is.
        plan: Its plan.
        parent: The frame of an enclosing block in the same thread, or None.

    ``visible`` holds the latest tensor of each name (and under None the latest of all) for readers that the
    plan cannot resolve by position.
    """

    __slots__ = ("block", "parent", "path", "plan", "visible")

    def __init__(self, block: ResidualSequential, plan: Plan, parent: Frame | None) -> None:
        self.block = block
        self.plan = plan
        self.parent = parent
        self.visible: dict[str | None, RecordedTensor] = {}
        # Path of the Record or Apply that is being called as a module, so that it need not search for itself.
        self.path: str | None = None

    def show(self, record: Record, name: str, tensor: Tensor, path: str) -> RecordedTensor:
        """Make a tensor visible by name, from here on."""
        entry = RecordedTensor(record, name, tensor, path, self.block, version_of(tensor))
        self.visible[name] = self.visible[None] = entry
        return entry

    def find(self, name: str | None) -> RecordedTensor | None:
        """Return the latest tensor of a name, in this block or else in an enclosing one.

        Args:
            name: The name, or None for the latest of all.
        """
        frame: Frame | None = self
        while frame is not None:
            entry = frame.visible.get(name)
            if entry is not None:
                return entry
            frame = frame.parent
        return None

    def forget(self, place: Place) -> None:
        """Let go of what a Record has made visible: its last reader has run."""
        for name in (place.name, None):
            entry = self.visible.get(name)
            if entry is not None and entry.record is place.record:
                del self.visible[name]

    def names(self) -> list[str]:
        """Return the names of the Records of this block and the enclosing ones, nearest first."""
        found: dict[str, None] = {}
        frame: Frame | None = self
        while frame is not None:
            found.update((name, None) for name in frame.plan.names.values())
            found.update((name, None) for name in frame.visible if name)
            frame = frame.parent
        return list(found)


def current_frame() -> Frame | None:
    """Return the frame of the forward that runs in this thread, or None."""
    return getattr(_context, "frame", None)


def remember_alone(record: Record, tensor: Tensor) -> None:
    """Note what a Record saw that was called on its own: for this thread, and no longer than the tensor lives."""
    seen = getattr(_context, "alone", None)
    if seen is None:
        seen = _context.alone = weakref.WeakKeyDictionary()
    seen[record] = weakref.ref(tensor)


def recalled_alone(record: Record) -> Tensor | None:
    """Return what a Record called on its own in this thread saw last, while that tensor is alive."""
    seen = getattr(_context, "alone", None)
    reference = seen.get(record) if seen is not None else None
    tensor: Tensor | None = reference() if reference is not None else None
    return tensor
