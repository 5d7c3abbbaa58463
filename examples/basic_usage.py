"""The first things to do with Record and Apply.

Run it (``python examples/basic_usage.py``), or look at its blocks (``rescli show examples/basic_usage.py``).
"""

from __future__ import annotations

import torch
from torch import nn

from torchresidual import Apply, LearnableAlpha, Record, ResidualSequential

# A skip around three layers: the output is LayerNorm(...) + input.
skip = ResidualSequential(
    Record(name="input"),
    nn.Linear(64, 64),
    nn.ReLU(),
    nn.LayerNorm(64),
    Apply(record_name="input"),
)

# A skip over a change of width: a projection from 64 to 128 is made with the block.
projected = ResidualSequential(
    Record(name="input", need_projection=True),
    nn.Linear(64, 128),
    nn.ReLU(),
    Apply(record_name="input"),
)

# How much of the input comes through is learned, and stays between 0 and 1.
mixed = ResidualSequential(
    Record(name="input"),
    nn.Linear(64, 64),
    Apply("gated", record_name="input", alpha=LearnableAlpha(0.3, min_value=0.0, max_value=1.0)),
)


def main() -> None:
    """Train the learned mixing weight for a few steps and print what came of it."""
    torch.manual_seed(0)
    x = torch.randn(32, 64)
    print(f"skip:      {tuple(x.shape)} -> {tuple(skip(x).shape)}")
    print(f"projected: {tuple(x.shape)} -> {tuple(projected(x).shape)}")

    # The projection is a parameter like any other: an optimizer built now has it.
    print(f"projection: {projected.get_submodule('3').projection_layer}")

    optimizer = torch.optim.Adam(mixed.parameters(), lr=0.05)
    for _ in range(50):
        loss = (mixed(x) - x).square().mean()  # the identity is best: all of the input should come through
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"alpha after 50 steps towards the identity: {mixed.get_submodule('2').alpha}")


if __name__ == "__main__":
    main()
