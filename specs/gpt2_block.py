"""A pre-norm GPT-2 block, or n of them.

Radford et al. 2019, "Language Models are Unsupervised Multitask Learners"
(https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf). Record
and Apply express both skips. Causal attention stays a module of this file, CausalSelfAttention: the mask of
nn.MultiheadAttention has to be passed at each call. So do the embeddings, TokensAndPositions, which add two
tables and no skip. Dropout is left out. A block has 7,087,872 parameters, ``--set n=12`` twelve times as many,
and ``rescli show gpt2_block:gpt2 --set n=12`` is GPT-2 small, with its embeddings 124,439,808.
"""

import torch
from torch import Tensor, nn

from torchresidual import Apply, Record, ResidualSequential

example_inputs = {"gpt2_block": (1, 1024, 768), "gpt2": (1, 1024)}


class CausalSelfAttention(nn.Module):
    """Let each token attend to itself and to those before it.

    Args:
        width: Features of a token.
        heads: How many heads share them.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Take and give (batch, tokens, width)."""
        query, key, value = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind()
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        mixed: Tensor = self.out(seen.transpose(1, 2).flatten(2))
        return mixed


class TokensAndPositions(nn.Module):
    """Add what a token is to where it stands.

    Args:
        vocabulary: How many tokens there are.
        context: How many a text may have.
        width: Features of a token.
    """

    def __init__(self, vocabulary: int, context: int, width: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        nn.init.normal_(self.tokens.weight, std=0.02)
        nn.init.normal_(self.positions.weight, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        """Take (batch, tokens), give (batch, tokens, width)."""
        places = torch.arange(tokens.size(-1), device=tokens.device)
        embedded: Tensor = self.tokens(tokens) + self.positions(places)
        return embedded


def one_block(width: int, heads: int) -> ResidualSequential:
    """Build one block.

    Args:
        width: Features of a token.
        heads: Heads of the attention.
    """
    return ResidualSequential(
        Record(name="attention"),
        nn.LayerNorm(width),
        CausalSelfAttention(width, heads),
        Apply(record_name="attention"),
        Record(name="mlp"),
        nn.LayerNorm(width),
        nn.Linear(width, 4 * width),
        nn.GELU(approximate="tanh"),
        nn.Linear(4 * width, width),
        Apply(record_name="mlp"),
    )


def gpt2_block(n: int = 1, width: int = 768, heads: int = 12) -> nn.Sequential:
    """Build one block, or several in a row.

    Args:
        n: How many.
        width: Features of a token.
        heads: Heads of each attention.
    """
    blocks = [one_block(width, heads) for _ in range(n)]
    return blocks[0] if n == 1 else nn.Sequential(*blocks)


# Without a default for n it is built only where it is asked for by name.
def gpt2(
    n: int, width: int = 768, heads: int = 12, vocabulary: int = 50257, context: int = 1024
) -> nn.Sequential:
    """Build the whole network; it gives a score for each token of the vocabulary.

    Args:
        n: How many blocks.
        width: Features of a token.
        heads: Heads of each attention.
        vocabulary: How many tokens there are.
        context: How many a text may have.
    """
    embedding = TokensAndPositions(vocabulary, context, width)
    scores = nn.Linear(width, vocabulary, bias=False)
    scores.weight = embedding.tokens.weight  # one table for both ends
    return nn.Sequential(embedding, *(one_block(width, heads) for _ in range(n)), nn.LayerNorm(width), scores)
