"""Skips around recurrent layers, hidden states, and sequences of several lengths.

Run it (``python examples/lstm_residual.py``), or look at its blocks (``rescli show examples/lstm_residual.py``).
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from torchresidual import Apply, Record, RecurrentWrapper, ResidualSequential

# The wrapper lets the sequence go on and drops the hidden state.
plain = ResidualSequential(
    Record(name="input"),
    RecurrentWrapper(nn.LSTM(32, 32, num_layers=2, batch_first=True)),
    Apply(record_name="input"),
)

# Both directions make 64 features of 32: the skip is projected.
bidirectional = ResidualSequential(
    Record(name="input", need_projection=True),
    RecurrentWrapper(nn.GRU(32, 32, batch_first=True, bidirectional=True)),
    Apply(record_name="input"),
)

# With return_hidden the last hidden state comes out beside the sequence.
stateful = ResidualSequential(
    Record(name="input"),
    RecurrentWrapper(nn.LSTM(32, 32, batch_first=True), return_hidden=True),
    Apply(record_name="input"),
)


def main() -> None:
    """Run the blocks: one in two pieces with the hidden state handed on, one on a packed batch."""
    torch.manual_seed(0)
    x = torch.randn(4, 10, 32)
    print(f"plain:         {tuple(x.shape)} -> {tuple(plain(x).shape)}")
    print(f"bidirectional: {tuple(x.shape)} -> {tuple(bidirectional(x).shape)}")

    whole, _ = stateful(x)
    first, (hidden,) = stateful(x[:, :5])
    second, _ = stateful(x[:, 5:], hidden=hidden)
    print(f"two halves give the whole: {torch.allclose(torch.cat([first, second], dim=1), whole, atol=1e-6)}")

    lengths = torch.tensor([10, 7, 5, 2])
    packed = pack_padded_sequence(x, lengths, batch_first=True)
    padded, _ = pad_packed_sequence(plain(packed), batch_first=True)
    shorter = plain(x[1:2, :7])
    print(f"packed sequences go through: {torch.allclose(padded[1, :7], shorter[0], atol=1e-6)}")


if __name__ == "__main__":
    main()
