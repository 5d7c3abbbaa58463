"""Two skips that cross: each Apply names its Record.

The skip from ``input`` ends where the width is 64 again, so its ``need_projection`` adds no parameter.
"""

from torch import nn

from torchresidual import Apply, Record, ResidualSequential

quick = True

block = ResidualSequential(
    Record(name="input", need_projection=True),
    nn.Linear(64, 32),
    nn.ReLU(),
    Record(name="mid"),
    nn.Linear(32, 64),
    Apply(record_name="input"),
    nn.LayerNorm(64),
    nn.Linear(64, 32),
    Apply(record_name="mid"),
)
