"""An encoder layer of the base Transformer.

Vaswani et al. 2017, "Attention Is All You Need" (https://arxiv.org/abs/1706.03762). Record and Apply express
both skips; nn.MultiheadAttention stands in the block as it is and is called with the current tensor as query,
key and value. Dropout is left out. 3,152,384 parameters, those of
``nn.TransformerEncoderLayer(512, 8, 2048)``.
"""

from torch import nn

from torchresidual import Apply, Record, ResidualSequential

quick = True
example_inputs = (1, 16, 512)


def transformer_base_layer(width: int = 512, heads: int = 8, hidden: int = 2048) -> ResidualSequential:
    """Build the layer.

    Args:
        width: Features of a token.
        heads: Heads of the attention.
        hidden: Features between the two linear layers.
    """
    return ResidualSequential(
        Record(name="attention"),
        nn.MultiheadAttention(width, heads, batch_first=True),
        Apply(record_name="attention"),
        nn.LayerNorm(width),
        Record(name="feed_forward"),
        nn.Linear(width, hidden),
        nn.ReLU(),
        nn.Linear(hidden, width),
        Apply(record_name="feed_forward"),
        nn.LayerNorm(width),
    )
