"""What an Apply accepts as its arguments."""

from __future__ import annotations

from torchresidual.errors import ConfigurationError
from torchresidual.operations import OPERATIONS


def checked_operation(operation: str) -> str:
    """Return the operation that is meant, or raise a ConfigurationError that names those there are."""
    known = str(operation).lower()  # 0.1.0 took "ADD", too
    if known not in OPERATIONS:
        meant = f"; for the name of a Record write record_name={operation!r}"
        raise ConfigurationError(
            f"operation must be one of {', '.join(OPERATIONS)}; found {operation!r}{meant}", subject="Apply"
        )
    return known


def checked_record_name(name: str | None) -> str | None:
    """Return the name of a Record or None, or raise a ConfigurationError."""
    if name is None or (name and isinstance(name, str)):
        return name
    raise ConfigurationError(
        f"record_name must be a non-empty string or None, found {name!r}", subject="Apply"
    )


def checked_dim(dim: int | None) -> int | None:
    """Return a dimension or None, or raise a ConfigurationError."""
    if dim is None or type(dim) is int:
        return dim
    raise ConfigurationError(f"dim must be an integer or None, found {dim!r}", subject="Apply")
