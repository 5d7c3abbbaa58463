"""Which layers write into their input, and what to do about it.

``Record, ReLU(inplace=True), Apply`` would change the recorded tensor. A torch.nn layer known to write gets a copy
of its input instead, but only while that input shares memory with a recorded tensor that is still needed. A
layer of the user's own is watched by the version counter that autograd keeps on each tensor.
"""

from __future__ import annotations

from enum import IntEnum

from torch import nn

from torchresidual.record import Record
from torchresidual.wrappers import RecurrentWrapper


class Writes(IntEnum):
    """What a layer does to its input's memory."""

    NEVER = 0
    IN_PLACE = 1
    UNKNOWN = 2


# Layers that return their input, or a view of it: what comes after them may still write into it.
_PASS_THROUGH = (nn.Identity, nn.Flatten, nn.Unflatten)
_DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)


def writes_into_input(layer: nn.Module) -> Writes:
    """Say whether a layer may write into its input, as far as its type tells.

    Args:
        layer: Any module. A container is judged by its first layers up to one that makes a new tensor.
    """
    if isinstance(layer, nn.Sequential):
        for child in layer:
            if isinstance(child, (*_PASS_THROUGH, Record)):
                continue
            verdict = writes_into_input(child)
            if verdict is Writes.NEVER and isinstance(child, _DROPOUTS):
                continue  # returns its input in eval mode
            return verdict
        return Writes.NEVER
    if isinstance(layer, RecurrentWrapper):
        return writes_into_input(layer.module)
    if getattr(layer, "inplace", False) is True:
        return Writes.IN_PLACE
    known = type(layer).__module__.startswith(("torch.nn.modules.", "torchresidual."))
    return Writes.NEVER if known else Writes.UNKNOWN
