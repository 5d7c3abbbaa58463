"""A highway layer: gates learn what is carried over.

Srivastava et al. 2015, "Highway Networks" (https://arxiv.org/abs/1505.00387). The highway operation has two
gates, each a Linear(50, 50): one reads the branch and weighs it, the other reads the recorded tensor and weighs
that; a layer of width 50 has 7,650 parameters. The paper couples the two into one gate that reads the layer's
input, and has 5,100. An alpha that reads a tensor is not among Apply's, so that layer stays a module of this
file: ``rescli show highway:CoupledHighway --set width=50``.
"""

import torch
from torch import Tensor, nn

from torchresidual import Apply, Record, ResidualSequential

quick = True

block = ResidualSequential(
    Record(name="input"),
    nn.Linear(50, 50),
    nn.ReLU(),
    Apply(record_name="input", operation="highway"),
)


class CoupledHighway(nn.Module):
    """The layer of the paper: what the gate lets through of the branch, it takes from the input.

    Args:
        width: Features that go in and come out.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.branch = nn.Linear(width, width)
        self.gate = nn.Linear(width, width)
        nn.init.constant_(self.gate.bias, -1.0)  # it starts by carrying most of the input over

    def forward(self, x: Tensor) -> Tensor:
        """Take and give (..., width)."""
        return torch.lerp(x, self.branch(x).relu(), self.gate(x).sigmoid())
