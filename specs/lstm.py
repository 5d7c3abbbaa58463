"""A skip around a two-layer LSTM.

RecurrentWrapper passes on the output sequence and leaves out the hidden state, so that the two can be added.
"""

from torch import nn

from torchresidual import Apply, Record, RecurrentWrapper, ResidualSequential

quick = True
example_inputs = (4, 10, 32)

block = ResidualSequential(
    Record(name="r"),
    RecurrentWrapper(nn.LSTM(32, 32, num_layers=2, batch_first=True), return_hidden=False),
    Apply(record_name="r"),
)
