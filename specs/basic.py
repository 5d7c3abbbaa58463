"""One skip around a linear layer and its norm.

Apply adds what Record saw to what came out of the layers between them; no ``forward`` is written.
"""

from torch import nn

from torchresidual import Apply, Record, ResidualSequential

quick = True

block = ResidualSequential(
    Record(name="input"),
    nn.Linear(64, 64),
    nn.ReLU(),
    nn.LayerNorm(64),
    Apply(record_name="input", operation="add"),
)
