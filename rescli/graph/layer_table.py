"""The table of layers that torchinfo draws of a block, without the figures that it gets wrong for these."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from rescli.errors import CommandLineError
from rescli.graph.copies import copy_block, suitable_device, untouched_rng
from rescli.graph.structure import map_tensors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import nn

_COLUMNS = ("input_size", "output_size", "num_params")
_COLUMN_WIDTH = 20


def layer_table(module: nn.Module, inputs: Sequence[object]) -> str:
    """Let torchinfo describe a copy of a block, layer by layer.

    torchinfo also prints totals, multiply-adds and memory. These count a layer that is used twice as two, and
    know nothing of attention and recorded tensors: they are left out, ``show`` has its own.

    Args:
        module: The block.
        inputs: What its forward takes.

    Returns:
        The table, or a sentence that says why there is none.

    Raises:
        CommandLineError: NumPy, which torchinfo imports without asking for it, is not installed.
    """
    # Here, not above: only this table needs it.
    try:
        import torchinfo  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise CommandLineError(
            f"--layers: torchinfo, which draws the table, needs {error.name}, and it is not installed",
            hint=f"pip install {error.name}",
        ) from error

    device = suitable_device(module, inputs)
    twin = copy_block(module, device).module
    own = [map_tensors(each, lambda tensor: tensor.detach().to(device, copy=True)) for each in inputs]
    with untouched_rng(), torch.no_grad():
        try:
            statistics = torchinfo.summary(
                twin,
                input_data=own,
                col_names=_COLUMNS,
                col_width=_COLUMN_WIDTH,
                row_settings=("var_names",),
                device=device,
                verbose=0,
            )
        except Exception as error:  # noqa: BLE001 - torchinfo fails in ways of its own
            return f"torchinfo has no table of this block: {error}"
    return _without_totals(str(statistics))


def _without_totals(text: str) -> str:
    """Keep what stands above the third of the rules that divide the text."""
    lines = text.splitlines()
    rules = [number for number, line in enumerate(lines) if line and not line.strip("=")]
    return "\n".join(lines[: rules[2]] if len(rules) > 2 else lines)
