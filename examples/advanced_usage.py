"""Convolutions, weights on both sides of a skip, blocks in blocks, and threads.

Run it (``python examples/advanced_usage.py``), or look at its blocks (``rescli show examples/advanced_usage.py``).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

from torchresidual import Apply, LearnableAlpha, Record, ResidualSequential

example_inputs = {"downsampling": (2, 64, 32, 32), "pre_norm": (2, 16, 64)}

# In a convolution stack features are channels: the projection is a 1x1 convolution with the stride of the branch.
downsampling = ResidualSequential(
    Record(name="input", need_projection=True),
    nn.Conv2d(64, 128, kernel_size=3, stride=2, padding=1),
    nn.BatchNorm2d(128),
    nn.ReLU(inplace=True),
    nn.Conv2d(128, 128, kernel_size=3, padding=1),
    Apply(record_name="input"),
)


def pre_norm(width: int = 64, heads: int = 4) -> ResidualSequential:
    """Return a pre-norm transformer layer whose branches start at zero (ReZero, https://arxiv.org/abs/2003.04887)."""
    branch = LearnableAlpha(0.0, min_value=-2.0, max_value=2.0)  # one weight for both skips
    return ResidualSequential(
        Record(name="attention"),
        nn.LayerNorm(width),
        nn.MultiheadAttention(width, heads, batch_first=True),
        Apply(record_name="attention", scale=branch),
        Record(name="feed_forward"),
        nn.LayerNorm(width),
        nn.Linear(width, 4 * width),
        nn.GELU(),
        nn.Linear(4 * width, width),
        Apply(record_name="feed_forward", scale=branch),
    )


# The inner block reads a Record of the outer one by its name.
nested = ResidualSequential(
    Record(name="outer"),
    nn.Linear(32, 32),
    ResidualSequential(
        Record(name="inner"),
        nn.Linear(32, 32),
        Apply(record_name="inner"),
        Apply(record_name="outer", alpha=0.5),
    ),
)


def main() -> None:
    """Run the blocks, one of them from eight threads at once."""
    torch.manual_seed(0)
    print(f"downsampling: {tuple(downsampling(torch.randn(2, 64, 15, 15)).shape)} from 15x15")

    layer = pre_norm()
    tokens = torch.randn(2, 16, 64)
    causal = torch.ones(16, 16, dtype=torch.bool).triu(1)
    out = layer(tokens, **{"2": {"attn_mask": causal}})
    print(f"a ReZero layer starts as the identity: {torch.allclose(out, tokens)}")

    for edge in nested.edges():
        print(f"skip {edge.record_name!r}: {edge.record_path} -> {edge.apply_path}, {edge.operation}")

    inputs = [torch.randn(size, 32) for size in range(1, 9)]
    expected = [nested(x) for x in inputs]
    with ThreadPoolExecutor(max_workers=8) as pool:
        outputs = list(pool.map(nested, inputs))
    print(f"8 threads, 8 right: {all(map(torch.equal, outputs, expected))}")


if __name__ == "__main__":
    main()
