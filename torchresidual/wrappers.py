"""RecurrentWrapper, and how layers are called that return more than a tensor."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from torchresidual.errors import ConfigurationError, StructureError


class RecurrentWrapper(nn.Module):
    """Let an LSTM, GRU or RNN stand between layers that return one tensor.

    Args:
        module: The recurrent layer. A PackedSequence passes through it as it is.
        return_hidden: Whether the last hidden state comes out beside the sequence; a block then returns it among
            its extras.

    Shape:
        As of ``module``: (batch, time, features) for ``batch_first=True``.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> layer = RecurrentWrapper(nn.LSTM(4, 8, batch_first=True))
        >>> layer(torch.zeros(2, 5, 4)).shape
        torch.Size([2, 5, 8])
    """

    def __init__(self, module: nn.Module, return_hidden: bool = False) -> None:
        super().__init__()
        if not isinstance(module, nn.Module):
            raise ConfigurationError(
                f"it wraps a recurrent layer, as nn.LSTM(4, 8); found {module!r}", subject="RecurrentWrapper"
            )
        self.module = module
        self.return_hidden = return_hidden

    def forward(self, x: Tensor | PackedSequence, hidden: Any = None) -> Any:
        """Run the layer.

        Args:
            x: The sequence.
            hidden: The hidden state to start from, or None for zeros.

        Returns:
            The output sequence, or ``(sequence, hidden)`` with ``return_hidden``.
        """
        result = self.module(x) if hidden is None else self.module(x, hidden)
        if isinstance(result, Tensor):
            raise StructureError(
                f"it wraps layers that return (output, hidden), and {type(self.module).__name__} returns a tensor; put "
                "that layer into the block as it is",
                subject="RecurrentWrapper",
            )
        output, last = result
        return (output, last) if self.return_hidden else output

    def __repr__(self) -> str:
        return f"RecurrentWrapper(return_hidden={self.return_hidden}, module={self.module!r})"


def split_extras(output: Any, extras: list[Any]) -> Any:
    """Return what goes on to the next layer, and append the rest to ``extras``.

    Args:
        output: What a layer returned. Of a tuple, the first item goes on; None among the others is dropped, a
            list is taken apart (nested blocks return their extras as one), anything else is one extra, so an
            LSTM's ``(h, c)`` stays together.
        extras: The list to append to.
    """
    # A PackedSequence is a tuple to Python and one value to us.
    if not isinstance(output, tuple) or isinstance(output, PackedSequence) or not output:
        return output
    for item in output[1:]:
        if isinstance(item, list):
            extras.extend(inner for inner in item if inner is not None)
        elif item is not None:
            extras.append(item)
    return output[0]
