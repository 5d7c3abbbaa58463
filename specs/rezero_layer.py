"""A ReZero layer: one learned scale for two skips.

Bachlechner et al. 2020, "ReZero is All You Need" (https://arxiv.org/abs/2003.04887). Record and Apply express
all of it: ``scale`` weighs the branch, starts at zero, so that the layer starts as the identity, and the same
parameter stands in both Applies; there is no norm. Dropout is left out. 3,150,337 parameters, the scale
counted once.
"""

import torch
from torch import nn

from torchresidual import Apply, Record, ResidualSequential

quick = True
example_inputs = (1, 16, 512)


def rezero_layer(width: int = 512, heads: int = 8, hidden: int = 2048) -> ResidualSequential:
    """Build the layer.

    Args:
        width: Features of a token.
        heads: Heads of the attention.
        hidden: Features between the two linear layers.
    """
    scale = nn.Parameter(torch.zeros(1))
    return ResidualSequential(
        Record(name="attention"),
        nn.MultiheadAttention(width, heads, batch_first=True),
        Apply(record_name="attention", scale=scale),
        Record(name="feed_forward"),
        nn.Linear(width, hidden),
        nn.ReLU(),
        nn.Linear(hidden, width),
        Apply(record_name="feed_forward", scale=scale),
    )
