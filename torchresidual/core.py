"""The names that torchresidual 0.1.0 had in this module, and what tools read of a forward that is running."""

from __future__ import annotations

from torchresidual.apply import Apply
from torchresidual.frame import RecordedTensor, _context, current_frame
from torchresidual.record import Record
from torchresidual.sequential import ResidualSequential

__all__ = ["Apply", "Record", "RecordedTensor", "ResidualSequential", "_context", "recorded_for"]


def recorded_for(apply: Apply) -> RecordedTensor:
    """Return what an Apply is about to read in the forward that runs in this thread.

    For tools that watch a run: call it from a forward pre-hook on the Apply.

    Args:
        apply: The Apply that is about to run.

    Raises:
        OutsideBlockError: If no forward is running in this thread.
        UnknownRecordError: If no Record of its name has run.
    """
    return apply.find_recorded(current_frame())
