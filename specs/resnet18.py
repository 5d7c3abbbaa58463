"""ResNet-18 for images: 8 skips, 3 projected.

He et al. 2016, "Deep Residual Learning for Image Recognition" (https://arxiv.org/abs/1512.03385). Record and
Apply express every skip; where picture and channels change, the skip goes through a 1x1 convolution with
BatchNorm that is given to Apply. 11,689,512 parameters for 1,000 classes.
"""

from torch import nn

from torchresidual import Apply, Record, ResidualSequential

example_inputs = (1, 3, 224, 224)


def basic_block(channels: int, width: int, stride: int = 1) -> ResidualSequential:
    """Build two 3x3 convolutions with a skip around them, and a ReLU after the addition.

    Args:
        channels: How many channels go in.
        width: How many come out.
        stride: By how much the picture shrinks.
    """
    projection = None
    if stride != 1 or channels != width:
        projection = nn.Sequential(
            nn.Conv2d(channels, width, kernel_size=1, stride=stride, bias=False), nn.BatchNorm2d(width)
        )
    return ResidualSequential(
        Record(name="input"),
        nn.Conv2d(channels, width, kernel_size=3, stride=stride, padding=1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
        nn.Conv2d(width, width, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(width),
        Apply(record_name="input", projection=projection),
        nn.ReLU(inplace=True),
    )


def resnet18(num_classes: int = 1000, in_channels: int = 3, width: int = 64) -> nn.Sequential:
    """Build the whole network.

    Args:
        num_classes: How many scores come out.
        in_channels: 3 for colour, 1 for grey.
        width: Channels of the first stage; each later one has twice as many.
    """
    stages = [basic_block(width, width), basic_block(width, width)]
    for wide in (2 * width, 4 * width, 8 * width):
        stages += [basic_block(wide // 2, wide, stride=2), basic_block(wide, wide)]
    return nn.Sequential(
        nn.Conv2d(in_channels, width, kernel_size=7, stride=2, padding=3, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(kernel_size=3, stride=2, padding=1),
        *stages,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8 * width, num_classes),
    )
