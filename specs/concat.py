"""Dense connections: features grow by concat.

Each layer sees what all layers before it gave: Apply puts what was recorded behind the new
features, 32 grow to 48, and 48 to 64. The idea is that of DenseNet, Huang et al. 2017
(https://arxiv.org/abs/1608.06993).
"""

from torch import nn

from torchresidual import Apply, Record, ResidualSequential

quick = True

block = ResidualSequential(
    Record(name="first"),
    nn.Linear(32, 16),
    nn.ReLU(),
    Apply(record_name="first", operation="concat"),
    Record(name="second"),
    nn.Linear(48, 16),
    nn.ReLU(),
    Apply(record_name="second", operation="concat"),
)
