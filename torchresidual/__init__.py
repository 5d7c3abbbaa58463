"""Residual connections for PyTorch: Record saves a tensor, Apply brings it back.

Example:
    >>> import torch
    >>> from torch import nn
    >>> from torchresidual import Apply, Record, ResidualSequential
    >>> block = ResidualSequential(Record(name="input"), nn.Linear(64, 64), Apply(record_name="input"))
    >>> block(torch.zeros(8, 64)).shape
    torch.Size([8, 64])
"""

from torchresidual.alpha import LearnableAlpha
from torchresidual.core import Apply, Record, ResidualSequential
from torchresidual.errors import (
    ConfigurationError,
    InPlaceError,
    NestingError,
    OutsideBlockError,
    ResidualError,
    ShapeError,
    StateError,
    StructureError,
    UnknownRecordError,
    UnsettledError,
)
from torchresidual.plan import Edge
from torchresidual.script import ResidualSequentialScript
from torchresidual.wrappers import RecurrentWrapper

# Of the library as code that imports it knows it; it follows the published 0.1.0, whose names it keeps.
__version__ = "0.2.0"

__all__ = [
    "Apply",
    "ConfigurationError",
    "Edge",
    "InPlaceError",
    "LearnableAlpha",
    "NestingError",
    "OutsideBlockError",
    "Record",
    "RecurrentWrapper",
    "ResidualError",
    "ResidualSequential",
    "ResidualSequentialScript",
    "ShapeError",
    "StateError",
    "StructureError",
    "UnknownRecordError",
    "UnsettledError",
]
