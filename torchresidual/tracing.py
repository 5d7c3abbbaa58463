"""Whether a block is run to be written down rather than for its values."""

from __future__ import annotations

import torch
from torch.fx import Proxy


def is_compiling() -> bool:
    """Say whether ``torch.compile`` or ``torch.export`` is tracing: there are no versions and no aliases then."""
    return torch.compiler.is_compiling()


def is_proxy(value: object) -> bool:
    """Say whether a value stands for a tensor in ``torch.fx.symbolic_trace``: its shape is not known then."""
    return isinstance(value, Proxy)
