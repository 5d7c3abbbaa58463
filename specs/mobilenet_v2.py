"""MobileNetV2: 10 of its 17 blocks have a skip.

Sandler et al. 2018, "MobileNetV2: Inverted Residuals and Linear Bottlenecks" (https://arxiv.org/abs/1801.04381),
with the dropout and the rounding of widths of torchvision. Record and Apply express every skip, between the
narrow ends of a block; where its stride or its width change, a block has none and is a plain nn.Sequential.
3,504,872 parameters for 1,000 classes; ``--set width=0.5`` has 1,968,680.
"""

from torch import nn

from torchresidual import Apply, Record, ResidualSequential

example_inputs = (1, 3, 224, 224)

# How far the blocks of a stage expand, their width, how many there are, and the stride of the first.
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def convolution(
    channels: int, width: int, kernel: int = 1, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    """Make a convolution with its BatchNorm and activation.

    Args:
        channels: How many channels go in.
        width: How many come out.
        kernel: Sides of the kernel; the picture is padded by half of it.
        stride: By how much the picture shrinks.
        groups: As many as channels: each is convolved by itself.
    """
    return [
        nn.Conv2d(channels, width, kernel, stride, padding=kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU6(inplace=True),
    ]


def inverted_residual(channels: int, width: int, stride: int = 1, expansion: int = 6) -> nn.Sequential:
    """Build a depthwise convolution between a 1x1 that widens and a 1x1 that narrows; nothing follows the last.

    Args:
        channels: How many channels go in.
        width: How many come out; with as many as go in, and stride 1, there is a skip.
        stride: By how much the picture shrinks.
        expansion: How many times wider the depthwise convolution is than the input.
    """
    wide = channels * expansion
    layers = [
        *(convolution(channels, wide) if expansion > 1 else []),
        *convolution(wide, wide, kernel=3, stride=stride, groups=wide),
        nn.Conv2d(wide, width, kernel_size=1, bias=False),
        nn.BatchNorm2d(width),
    ]
    if stride == 1 and channels == width:
        return ResidualSequential(Record(name="narrow"), *layers, Apply(record_name="narrow"))
    return nn.Sequential(*layers)


def rounded(channels: float) -> int:
    """Round a number of channels to a multiple of 8, at least 8 and never down by more than a tenth.

    Args:
        channels: A width times a factor.
    """
    nearest = max(8, int(channels + 4) // 8 * 8)
    return nearest if nearest >= 0.9 * channels else nearest + 8


def mobilenet_v2(width: float = 1.0, num_classes: int = 1000, in_channels: int = 3) -> nn.Sequential:
    """Build the whole network.

    Args:
        width: Factor of all widths.
        num_classes: How many scores come out.
        in_channels: 3 for colour, 1 for grey.
    """
    channels, last = rounded(32 * width), rounded(1280 * max(1.0, width))
    layers = convolution(in_channels, channels, kernel=3, stride=2)
    for expansion, base, count, first_stride in STAGES:
        for index in range(count):
            wide, stride = rounded(base * width), first_stride if index == 0 else 1
            layers.append(inverted_residual(channels, wide, stride, expansion))
            channels = wide
    return nn.Sequential(
        *layers,
        *convolution(channels, last),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(last, num_classes),
    )
