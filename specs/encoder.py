"""A convolutional encoder: a projection, a concat.

Its layers have names. The long skip goes through a 1x1 convolution from 64 to 128 channels; the
short one puts 128 recorded channels beside the 64 of the last convolution. 64 channels go in, 192
come out, the length stays.
"""

from collections import OrderedDict

from torch import nn

from torchresidual import Apply, Record, ResidualSequential

quick = True
example_inputs = (4, 64, 100)

encoder = ResidualSequential(
    OrderedDict(
        [
            ("record_input", Record(need_projection=True, name="input")),
            ("conv1", nn.Conv1d(64, 128, kernel_size=3, padding=1)),
            ("relu1", nn.ReLU()),
            ("record_mid", Record(name="mid")),
            ("conv2", nn.Conv1d(128, 128, kernel_size=3, padding=1)),
            ("relu2", nn.ReLU()),
            ("apply_long", Apply(record_name="input")),
            ("norm", nn.BatchNorm1d(128)),
            ("conv3", nn.Conv1d(128, 64, kernel_size=1)),
            ("apply_short", Apply(record_name="mid", operation="concat")),
        ]
    )
)
