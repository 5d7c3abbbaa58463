"""A highway layer: gates learn what is carried over.

Two gates see x and the recorded tensor, each a Linear(50, 50). Srivastava et al. 2015, "Highway Networks"
(https://arxiv.org/abs/1505.00387), couple them into one; with two, a layer of width 50 has 7,650 parameters.
"""

from torch import nn

from torchresidual import Apply, Record, ResidualSequential

quick = True

block = ResidualSequential(
    Record(name="input"),
    nn.Linear(50, 50),
    nn.ReLU(),
    Apply(record_name="input", operation="highway"),
)
