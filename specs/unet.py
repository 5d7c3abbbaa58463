"""A U-Net for segmentation: 4 skips by concat.

Ronneberger et al. 2015, "U-Net: Convolutional Networks for Biomedical Image Segmentation"
(https://arxiv.org/abs/1505.04597), as it is commonly implemented: 3x3 convolutions keep the size of the picture
and are followed by BatchNorm. Record and Apply express all of it, in one list of layers: each way down ends in
a Record, each way up begins with the Apply that takes it back, the latest one first. Apply puts the recorded
channels behind those that came up; weights from a network that has them in front need these two halves of each
following convolution exchanged. 31,037,633 parameters for colour pictures and one class.
"""

from torch import nn

from torchresidual import Apply, Record, ResidualSequential

# Each level halves the picture: its sides must be multiples of 2 ** depth.
example_inputs = (1, 3, 256, 256)


def two_convolutions(channels: int, width: int) -> list[nn.Module]:
    """Make the layers that each level consists of.

    Args:
        channels: How many channels go in.
        width: How many come out.
    """
    return [
        nn.Conv2d(channels, width, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
        nn.Conv2d(width, width, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
    ]


def unet(in_channels: int = 3, num_classes: int = 1, width: int = 64, depth: int = 4) -> ResidualSequential:
    """Build the whole network.

    Args:
        in_channels: 3 for colour, 1 for grey.
        num_classes: How many scores each pixel gets.
        width: Channels of the first level; each deeper one has twice as many.
        depth: How often the picture is halved, and so the number of skips.
    """
    levels = [width * 2**level for level in range(depth)]
    layers: list[nn.Module] = []
    for channels, wide in zip([in_channels, *levels], levels, strict=False):
        layers += [*two_convolutions(channels, wide), Record(name=f"down{wide}"), nn.MaxPool2d(2)]
    layers += two_convolutions(levels[-1], 2 * levels[-1])
    for wide in reversed(levels):
        layers += [
            nn.ConvTranspose2d(2 * wide, wide, kernel_size=2, stride=2),
            Apply("concat", record_name=f"down{wide}"),
            *two_convolutions(2 * wide, wide),
        ]
    return ResidualSequential(*layers, nn.Conv2d(width, num_classes, kernel_size=1))
