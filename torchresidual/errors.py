"""What can go wrong in a residual block, as one tree.

    ResidualError
    ├── ConfigurationError (ValueError)     an argument of Record, Apply or LearnableAlpha is not allowed
    ├── StructureError (RuntimeError)       the parts of a block do not fit together
    │   ├── OutsideBlockError               an Apply runs outside of a ResidualSequential
    │   ├── UnknownRecordError              an Apply finds no Record of its name in reach
    │   └── NestingError (RecursionError)   blocks are nested deeper than Python can call
    ├── ShapeError (RuntimeError)           recorded and current tensor cannot be combined
    ├── InPlaceError (RuntimeError)         a layer changed a recorded tensor in place
    ├── UnsettledError (RuntimeError)       sizes are not known yet and cannot be settled here
    └── StateError (RuntimeError)           a saved state does not fit

Each branch also inherits the builtin error in brackets, so that code written against torchresidual 0.1.0
catches what it always caught.

The function that finds the fault raises the bare reason; each ``ResidualSequential`` on the way out puts the
key of its own child in front, so the message a user reads names the place from the outermost block on.
"""

from __future__ import annotations


class ResidualError(Exception):
    """Base of every error of torchresidual.

    Args:
        reason: What was found, what was expected and what to type.
        subject: What the error is about, for instance ``Apply(operation='add')``.
    """

    def __init__(self, reason: str, *, subject: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.subject = subject
        self.path = ""
        self.record = ""
        # The module that raised it, as long as its place is not part of the path.
        self.origin: object | None = None

    def enter(self, key: str) -> None:
        """Put the key of a child in front of the place that the message names."""
        self.path = ".".join(part for part in (key, self.path) if part)

    def __str__(self) -> str:
        place = f"at '{self.path}'" if self.path else ""
        record = f"with record {self.record!r}" if self.record else ""
        head = " ".join(part for part in (self.subject, place, record) if part)
        return f"{head}: {self.reason}" if head else self.reason


class ConfigurationError(ResidualError, ValueError):
    """An argument of Record, Apply or LearnableAlpha is not allowed."""


class StructureError(ResidualError, RuntimeError):
    """The parts of a block do not fit together."""


class OutsideBlockError(StructureError):
    """An Apply runs outside of a ResidualSequential."""


class UnknownRecordError(StructureError):
    """An Apply finds no Record of its name in reach."""


class NestingError(StructureError, RecursionError):
    """Blocks are nested deeper than Python can call."""


class ShapeError(ResidualError, RuntimeError):
    """Recorded and current tensor cannot be combined."""


class InPlaceError(ResidualError, RuntimeError):
    """A layer changed a recorded tensor in place."""


class UnsettledError(ResidualError, RuntimeError):
    """Sizes are not known yet and cannot be settled here."""


class StateError(ResidualError, RuntimeError):
    """A saved state does not fit."""
