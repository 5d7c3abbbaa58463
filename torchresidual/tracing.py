"""Whether a block is run to be written down rather than for its values."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Proxy


def is_compiling() -> bool:
    """Say whether ``torch.compile`` or ``torch.export`` is tracing: there are no versions and no aliases then."""
    return torch.compiler.is_compiling()


def is_proxy(value: object) -> bool:
    """Say whether a value stands for a tensor in ``torch.fx.symbolic_trace``: its shape is not known then."""
    return isinstance(value, Proxy)


def is_fake(value: object) -> bool:
    """Say whether a value is a tensor of FakeTensorMode: it has a shape and no data."""
    return isinstance(value, FakeTensor)


def is_transformed(value: object) -> bool:
    """Say whether a value is a tensor inside ``vmap``, ``grad`` or another transform of torch.func."""
    return isinstance(value, Tensor) and bool(torch._C._functorch.is_functorch_wrapped_tensor(value))
