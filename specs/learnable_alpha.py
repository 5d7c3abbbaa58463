"""A gated skip whose mixing weight is learned.

The output is ``(1 - a) * x + a * r``; ``a`` starts at 0.3 and stays between 0 and 1,
whatever the optimizer does.
"""

from torch import nn

from torchresidual import Apply, LearnableAlpha, Record, ResidualSequential

quick = True

block = ResidualSequential(
    Record(name="r"),
    nn.Linear(64, 64),
    Apply(
        record_name="r",
        operation="gated",
        alpha=LearnableAlpha(0.3, min_value=0.0, max_value=1.0),
    ),
)
