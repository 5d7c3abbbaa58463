"""ResNet-50, 101 and 152 for images: bottlenecks.

He et al. 2016, "Deep Residual Learning for Image Recognition" (https://arxiv.org/abs/1512.03385). Record and
Apply express all 16 skips; the first of each stage goes through a 1x1 convolution with BatchNorm that is given
to Apply. The stride is in the 3x3 convolution, where torchvision has it and the paper has not. 25,557,032
parameters for 1,000 classes; ``--set depth=101`` has 44,549,160, ``--set depth=152`` 60,192,808.
"""

from torch import nn

from torchresidual import Apply, Record, ResidualSequential

example_inputs = (1, 3, 224, 224)

STAGES = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}


def bottleneck(channels: int, width: int, stride: int = 1) -> ResidualSequential:
    """Build a 3x3 convolution between two 1x1 ones, a skip around them, and a ReLU after the addition.

    Args:
        channels: How many channels go in.
        width: How many the 3x3 convolution has; four times as many come out.
        stride: By how much the picture shrinks.
    """
    projection = None
    if stride != 1 or channels != 4 * width:
        projection = nn.Sequential(
            nn.Conv2d(channels, 4 * width, kernel_size=1, stride=stride, bias=False),
            nn.BatchNorm2d(4 * width),
        )
    return ResidualSequential(
        Record(name="input"),
        nn.Conv2d(channels, width, kernel_size=1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
        nn.Conv2d(width, width, kernel_size=3, stride=stride, padding=1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
        nn.Conv2d(width, 4 * width, kernel_size=1, bias=False),
        nn.BatchNorm2d(4 * width),
        Apply(record_name="input", projection=projection),
        nn.ReLU(inplace=True),
    )


def resnet50(
    depth: int = 50, num_classes: int = 1000, in_channels: int = 3, width: int = 64
) -> nn.Sequential:
    """Build the whole network.

    Args:
        depth: How many layers have weights: 50, 101 or 152.
        num_classes: How many scores come out.
        in_channels: 3 for colour, 1 for grey.
        width: Width of the first stage's bottlenecks; each later stage is twice as wide.

    Raises:
        ValueError: There is no such depth.
    """
    if depth not in STAGES:
        raise ValueError(f"depth must be one of {', '.join(map(str, STAGES))}; found {depth}")
    blocks, channels = [], width
    for stage, count in enumerate(STAGES[depth]):
        wide = width * 2**stage
        for index in range(count):
            shrinks = stage > 0 and index == 0
            blocks.append(bottleneck(channels, wide, stride=2 if shrinks else 1))
            channels = 4 * wide
    return nn.Sequential(
        nn.Conv2d(in_channels, width, kernel_size=7, stride=2, padding=3, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(kernel_size=3, stride=2, padding=1),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(channels, num_classes),
    )
