"""A residual block inside another one.

Each block has a scope of its own: an Apply without a name takes the latest Record of the block it stands in.
"""

from torch import nn

from torchresidual import Apply, Record, ResidualSequential

quick = True

inner_block = ResidualSequential(
    Record(),
    nn.Linear(64, 64),
    nn.ReLU(),
    Apply(),
)

outer_block = ResidualSequential(
    Record(),
    inner_block,
    nn.Linear(64, 64),
    Apply(),
)
