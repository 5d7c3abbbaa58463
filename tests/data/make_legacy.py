"""Make the files in this folder with the published torchresidual 0.1.0.

Its import name is ours too, so it needs an environment, or a folder, of its own:

    pip install --no-deps --target /tmp/published torchresidual==0.1.0
    PYTHONPATH=/tmp/published python tests/data/make_legacy.py

Each ``legacy_*.pt`` holds what was saved, the input and the output of the model it was saved from.
"""

from __future__ import annotations

import contextlib
import io
import pickle
from pathlib import Path

import torch
from torch import nn

import torchresidual
from torchresidual import Apply, LearnableAlpha, Record, RecurrentWrapper, ResidualSequential

FOLDER = Path(__file__).parent


def model() -> nn.Module:
    """Return a block with a projection, highway gates, a learned alpha and a recurrent layer."""
    return ResidualSequential(
        Record(need_projection=True, name="r"),
        nn.Linear(4, 6),
        Apply("highway", "r"),
        nn.Linear(6, 6),
        Apply("gated", alpha=LearnableAlpha(0.3)),
        Record(),
        nn.Linear(6, 6),
        Apply(alpha=LearnableAlpha(0.01, 1e-4, 1.0)),
        RecurrentWrapper(nn.GRU(6, 6, batch_first=True)),
    )


def picture_model() -> nn.Module:
    """Return a convolution stack; 0.1.0 maps its width."""
    return ResidualSequential(Record(need_projection=True), nn.Conv1d(2, 3, 3, stride=2, padding=1), Apply())


def main() -> None:
    """Write the files."""
    if hasattr(torchresidual, "Edge"):
        raise SystemExit(f"this is not the published torchresidual: {torchresidual.__file__}")
    torch.manual_seed(0)
    block, x = model(), torch.randn(2, 3, 4)
    before = {"state": block.state_dict(), "pickle": pickle.dumps(block)}
    with torch.no_grad():
        y = block(x)
    state = {name: value.clone() for name, value in block.state_dict().items()}
    whole = io.BytesIO()
    torch.save(block, whole)
    torch.save({**before, "input": x}, FOLDER / "legacy_before_forward.pt")
    torch.save(
        {"state": block.state_dict(), "values": state, "model": whole.getvalue(), "input": x, "output": y},
        FOLDER / "legacy_after_forward.pt",
    )
    pictures = picture_model()
    # It fails behind making the projection, which is in the state all the same.
    with contextlib.suppress(RuntimeError):
        pictures(torch.randn(1, 2, 8))
    torch.save({"state": pictures.state_dict()}, FOLDER / "legacy_pictures.pt")


if __name__ == "__main__":
    main()
