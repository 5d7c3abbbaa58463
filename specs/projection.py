"""A skip over a change of width, from 64 to 128.

``need_projection=True`` lets Apply put a Linear(64, 128) of its own into the skip.
"""

from torch import nn

from torchresidual import Apply, Record, ResidualSequential

quick = True

block = ResidualSequential(
    Record(name="r", need_projection=True),
    nn.Linear(64, 128),
    nn.ReLU(),
    Apply(record_name="r"),
)
