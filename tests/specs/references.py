"""The published networks in plain PyTorch, each as its ``forward`` is usually written.

Layers are defined in the order in which our specs run them, so that weights are copied one after the other.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


def normed(
    channels: int, width: int, kernel: int, stride: int = 1, padding: int = 0, groups: int = 1
) -> nn.Sequential:
    """A convolution without bias and its BatchNorm."""
    convolution = nn.Conv2d(channels, width, kernel, stride, padding, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(width))


class BasicBlock(nn.Module):
    """A block of ResNet-18."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = normed(channels, width, 3, stride=stride, padding=1)
        self.conv2 = normed(width, width, 3, padding=1)
        changes = stride != 1 or channels != width
        self.shortcut = normed(channels, width, 1, stride=stride) if changes else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.conv2(torch.relu(self.conv1(x))) + self.shortcut(x))


class Bottleneck(nn.Module):
    """A block of ResNet-50."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = normed(channels, width, 1)
        self.conv2 = normed(width, width, 3, stride=stride, padding=1)
        self.conv3 = normed(width, 4 * width, 1)
        changes = channels != 4 * width
        self.shortcut = normed(channels, 4 * width, 1, stride=stride) if changes else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        branch = self.conv3(torch.relu(self.conv2(torch.relu(self.conv1(x)))))
        return torch.relu(branch + self.shortcut(x))


class ResNet(nn.Module):
    """A ResNet for 10 classes."""

    def __init__(self, block: type[BasicBlock | Bottleneck], counts: tuple[int, ...], width: int) -> None:
        super().__init__()
        self.stem = normed(3, width, 7, stride=2, padding=3)
        self.pool = nn.MaxPool2d(3, 2, 1)
        growth = 4 if block is Bottleneck else 1
        channels, blocks = width, []
        for stage, count in enumerate(counts):
            for index in range(count):
                wide = width << stage
                blocks.append(block(channels, wide, 2 if stage and not index else 1))
                channels = growth * wide
        self.blocks = nn.ModuleList(blocks)
        self.head = nn.Linear(channels, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(torch.relu(self.stem(x)))
        for block in self.blocks:
            x = block(x)
        scores: Tensor = self.head(x.mean((2, 3)))
        return scores


def level(channels: int, width: int) -> nn.Sequential:
    """The convolutions of one level of a U-Net."""
    first, second = normed(channels, width, 3, padding=1), normed(width, width, 3, padding=1)
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU())


class Rise(nn.Module):
    """A level on the way up, with the recorded channels in front, as it is usually written."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.rise = nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.convolutions = level(2 * width, width)

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        result: Tensor = self.convolutions(torch.cat([skip, self.rise(x)], dim=1))
        return result


class UNet(nn.Module):
    """A U-Net that halves the picture four times."""

    def __init__(self, width: int) -> None:
        super().__init__()
        wide = [width << depth for depth in range(5)]
        self.down = nn.ModuleList(level(*sizes) for sizes in zip([3, *wide], wide, strict=False))
        self.up = nn.ModuleList(Rise(each) for each in reversed(wide[:4]))
        self.head = nn.Conv2d(width, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for depth, convolutions in enumerate(self.down):
            x = convolutions(x if depth == 0 else nn.functional.max_pool2d(x, 2))
            kept.append(x)
        for rise, skip in zip(self.up, kept[-2::-1], strict=True):
            x = rise(x, skip)
        scores: Tensor = self.head(x)
        return scores


class InvertedResidual(nn.Module):
    """A block of MobileNetV2."""

    def __init__(self, channels: int, width: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = channels * expansion
        self.expand = normed(channels, wide, 1) if expansion > 1 else None
        self.depthwise = normed(wide, wide, 3, stride=stride, padding=1, groups=wide)
        self.narrow = normed(wide, width, 1)
        self.has_skip = stride == 1 and channels == width

    def forward(self, x: Tensor) -> Tensor:
        y = x if self.expand is None else nn.functional.relu6(self.expand(x))
        y = self.narrow(nn.functional.relu6(self.depthwise(y)))
        result: Tensor = x + y if self.has_skip else y
        return result


class MobileNetV2(nn.Module):
    """MobileNetV2 at full width, the blocks of its table written out."""

    TABLE = (
        (32, 16, 1, 1),
        (16, 24, 2, 6),
        (24, 24, 1, 6),
        (24, 32, 2, 6),
        (32, 32, 1, 6),
        (32, 32, 1, 6),
        (32, 64, 2, 6),
        (64, 64, 1, 6),
        (64, 64, 1, 6),
        (64, 64, 1, 6),
        (64, 96, 1, 6),
        (96, 96, 1, 6),
        (96, 96, 1, 6),
        (96, 160, 2, 6),
        (160, 160, 1, 6),
        (160, 160, 1, 6),
        (160, 320, 1, 6),
    )

    def __init__(self) -> None:
        super().__init__()
        self.stem = normed(3, 32, 3, stride=2, padding=1)
        self.blocks = nn.Sequential(*(InvertedResidual(*row) for row in self.TABLE))
        self.last = normed(320, 1280, 1)
        self.head = nn.Linear(1280, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(nn.functional.relu6(self.stem(x)))
        scores: Tensor = self.head(nn.functional.relu6(self.last(x)).mean((2, 3)))
        return scores


class GPT2(nn.Module):
    """GPT-2 with PyTorch's own attention and an explicit mask."""

    def __init__(self, n: int, width: int, heads: int, vocabulary: int, context: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(GPT2Block(width, heads) for _ in range(n))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        scores: Tensor = self.norm(x) @ self.tokens.weight.T
        return scores


class GPT2Block(nn.Module):
    """A block of GPT-2."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm2 = nn.LayerNorm(width)
        self.widen = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        y = self.norm1(x)
        x = x + self.attention(y, y, y, attn_mask=later, need_weights=False)[0]
        y = self.widen(self.norm2(x))
        gelu = 0.5 * y * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (y + 0.044715 * y**3)))
        result: Tensor = x + self.narrow(gelu)
        return result


class ReZeroLayer(nn.Module):
    """A Transformer layer without norms, its branches under one scale."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.scale = nn.ParameterList([torch.zeros(1)])
        self.widen = nn.Linear(width, hidden)
        self.narrow = nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        scale = self.scale[0]
        x = x + scale * self.attention(x, x, x, need_weights=False)[0]
        result: Tensor = x + scale * self.narrow(torch.relu(self.widen(x)))
        return result


class CoupledHighway(nn.Module):
    """A highway layer with one gate for both sides."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.branch = nn.Linear(width, width)
        self.gate = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        transform = torch.sigmoid(self.gate(x))
        return transform * torch.relu(self.branch(x)) + (1 - transform) * x


class TwoGateHighway(nn.Module):
    """A highway layer whose gates read the branch and the input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.branch = nn.Linear(width, width)
        self.transform = nn.Linear(width, width)
        self.carry = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.branch(x))
        return torch.sigmoid(self.transform(y)) * y + torch.sigmoid(self.carry(x)) * x
