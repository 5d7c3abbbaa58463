"""What a sequence of layers says about sizes: how many features, along which dimension, at which stride.

The walk carries a ``Stream`` from layer to layer. What is not known yet is a ``Variable`` that a later layer may
settle: in ``Record, Linear(64, 32)`` it is the Linear that tells the size at the Record. The same unknown at both
ends of a skip means that the sizes agree, whatever they are.

A new layer type is one more row in ``RULES``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Generic, TypeVar

from torch import nn

from torchresidual.wrappers import RecurrentWrapper

T = TypeVar("T")


class Variable(Generic[T]):
    """Something the walk may learn later; two variables that turn out to be the same are linked."""

    __slots__ = ("_link", "_value")

    def __init__(self, value: T | None = None) -> None:
        self._link: Variable[T] | None = None
        self._value = value

    def root(self) -> Variable[T]:
        """Return the variable that stands for all linked ones."""
        variable = self
        while variable._link is not None:
            variable = variable._link
        if variable is not self:
            self._link = variable
        return variable

    @property
    def value(self) -> T | None:
        """What is known, or None."""
        return self.root()._value

    def learn(self, value: T) -> bool:
        """Note a value; return False where another one is known already."""
        root = self.root()
        if root._value is None:
            root._value = value
        return root._value == value

    def same_as(self, other: Variable[T]) -> bool:
        """Say whether both are known to be equal, or are the same unknown."""
        a, b = self.root(), other.root()
        return a is b or (a._value is not None and a._value == b._value)


@dataclass(frozen=True, slots=True)
class Form:
    """Where the features lie.

    Args:
        spatial: None for features in the last dimension; else channels come first, before this many spatial
            dimensions.
    """

    spatial: int | None = None

    @property
    def dim(self) -> int:
        """The feature dimension, counted from the end so that a missing batch does not matter."""
        return -1 if self.spatial is None else -(self.spatial + 1)


LAST = Form(None)


@dataclass(frozen=True, slots=True)
class Stream:
    """What is known of the tensor between two layers.

    Args:
        size: The number of features.
        form: Where they lie.
        origin: What the strides are counted from; strides of different origins cannot be compared.
        stride: Positions of the origin for one position here, per spatial dimension; () means one each.
        channels_first: Whether a layer said that channels come first without saying how many dimensions follow
            (BatchNorm1d, GroupNorm).
    """

    size: Variable[int]
    form: Variable[Form]
    origin: object
    stride: tuple[Fraction, ...] = ()
    channels_first: bool = False

    @classmethod
    def unknown(cls) -> Stream:
        """Return a stream of which nothing is known."""
        return cls(Variable(), Variable(), object())

    def expecting(self, size: int | None, form: Form | None) -> Stream:
        """Learn what a layer demands of its input; where it contradicts what is known, start anew from it."""
        if (form is not None and not self.form.learn(form)) or (size and not self.size.learn(size)):
            return Stream(Variable(size or None), Variable(form), object())
        return self

    def resized(self, size: int | None) -> Stream:
        """Return the stream with another number of features."""
        return replace(self, size=Variable(size or None))

    def strided(self, steps: tuple[Fraction, ...]) -> Stream:
        """Return the stream after a layer that takes one of so many positions, per spatial dimension."""
        if not self.stride:
            return replace(self, stride=steps)
        if len(self.stride) != len(steps):
            return replace(self, origin=object(), stride=())
        return replace(self, stride=tuple(a * b for a, b in zip(self.stride, steps, strict=True)))

    def relocated(self) -> Stream:
        """Return the stream after a layer whose output length says nothing about its input's."""
        return replace(self, origin=object(), stride=())

    def stride_since(self, earlier: Stream) -> tuple[Fraction, ...] | None:
        """Return the stride from an earlier point to here, () for one each, None where it is not known."""
        if self.origin is not earlier.origin:
            return None
        here, there = self.stride, earlier.stride
        rank = max(len(here), len(there))
        if (here and len(here) != rank) or (there and len(there) != rank):
            return None
        one = (Fraction(1),) * rank
        steps = tuple(a / b for a, b in zip(here or one, there or one, strict=True))
        return () if all(step == 1 for step in steps) else steps


Rule = Callable[[Any, Stream], Stream]


def _tuple(value: int | Sequence[int], rank: int) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, Sequence) else (value,) * rank


def _keep(_: nn.Module, stream: Stream) -> Stream:
    return stream


def _linear(layer: nn.Linear, stream: Stream) -> Stream:
    return stream.expecting(layer.in_features, LAST).resized(layer.out_features)


def _bilinear(layer: nn.Bilinear, stream: Stream) -> Stream:
    return stream.expecting(None, LAST).resized(layer.out_features)


def _embedding(layer: nn.Embedding | nn.EmbeddingBag, stream: Stream) -> Stream:
    return Stream(Variable(layer.embedding_dim), Variable(LAST), object(), stream.stride)


def _conv(rank: int) -> Rule:
    def rule(layer: nn.Conv1d, stream: Stream) -> Stream:
        steps = tuple(Fraction(step) for step in _tuple(layer.stride, rank))
        return stream.expecting(layer.in_channels, Form(rank)).resized(layer.out_channels).strided(steps)

    return rule


def _transposed(rank: int) -> Rule:
    def rule(layer: nn.ConvTranspose1d, stream: Stream) -> Stream:
        steps = tuple(Fraction(1, step) for step in _tuple(layer.stride, rank))
        return stream.expecting(layer.in_channels, Form(rank)).resized(layer.out_channels).strided(steps)

    return rule


def _norm(rank: int) -> Rule:
    def rule(layer: nn.BatchNorm2d, stream: Stream) -> Stream:
        return stream.expecting(layer.num_features, Form(rank))

    return rule


def _channel_norm(layer: nn.BatchNorm1d | nn.SyncBatchNorm | nn.GroupNorm, stream: Stream) -> Stream:
    """Channels lie in dimension 1, but how many dimensions follow is open: none after a Linear."""
    size = layer.num_channels if isinstance(layer, nn.GroupNorm) else layer.num_features
    stream = stream.expecting(size, None)
    return stream if stream.form.value else replace(stream, channels_first=True)


def _pool(rank: int) -> Rule:
    def rule(layer: nn.MaxPool1d, stream: Stream) -> Stream:
        step = layer.stride or layer.kernel_size  # LPPool leaves a stride that was not given at None
        steps = tuple(Fraction(one) for one in _tuple(step, rank))
        return stream.expecting(None, Form(rank)).strided(steps)

    return rule


def _adaptive(rank: int) -> Rule:
    def rule(_: nn.Module, stream: Stream) -> Stream:
        return stream.expecting(None, Form(rank)).relocated()

    return rule


def _upsample(layer: nn.Upsample, stream: Stream) -> Stream:
    rank = stream.form.value.spatial if stream.form.value else None
    if layer.scale_factor is None or rank is None:
        return stream.relocated()
    factors = layer.scale_factor if isinstance(layer.scale_factor, tuple) else (layer.scale_factor,) * rank
    return stream.strided(tuple(1 / Fraction(factor) for factor in factors))


def _shuffle(layer: nn.PixelShuffle, stream: Stream) -> Stream:
    factor = layer.upscale_factor
    size = stream.size.value
    stream = stream.expecting(None, Form(2)).resized(size // factor**2 if size else None)
    return stream.strided((Fraction(1, factor),) * 2)


def _unshuffle(layer: nn.PixelUnshuffle, stream: Stream) -> Stream:
    factor = layer.downscale_factor
    size = stream.size.value
    stream = stream.expecting(None, Form(2)).resized(size * factor**2 if size else None)
    return stream.strided((Fraction(factor),) * 2)


def _flatten(layer: nn.Flatten, _: Stream) -> Stream:
    last = layer.start_dim == 1 and layer.end_dim == -1
    return Stream(Variable(), Variable(LAST if last else None), object())


def _glu(layer: nn.GLU, stream: Stream) -> Stream:
    form, size = stream.form.value, stream.size.value
    if form is None or layer.dim not in (form.dim, -1 if form is LAST else 1):
        return Stream.unknown()
    return stream.resized(size // 2 if size else None)


def _recurrent(layer: nn.RNNBase, stream: Stream) -> Stream:
    width = (layer.proj_size or layer.hidden_size) * (2 if layer.bidirectional else 1)
    return stream.expecting(layer.input_size, LAST).resized(width)


def _attention(layer: nn.MultiheadAttention, stream: Stream) -> Stream:
    return stream.expecting(layer.embed_dim, LAST)


def _transformer_layer(layer: nn.TransformerEncoderLayer, stream: Stream) -> Stream:
    return stream.expecting(layer.linear1.in_features, LAST)


def _transformer(layer: nn.TransformerEncoder, stream: Stream) -> Stream:
    for inner in layer.layers:
        stream = after(inner, stream)
    return stream


def _wrapped(layer: RecurrentWrapper, stream: Stream) -> Stream:
    return after(layer.module, stream)


_ELEMENTWISE = (
    *(
        nn.Identity,
        nn.Dropout,
        nn.Dropout1d,
        nn.Dropout2d,
        nn.Dropout3d,
        nn.AlphaDropout,
        nn.FeatureAlphaDropout,
    ),
    *(
        nn.ReLU,
        nn.ReLU6,
        nn.RReLU,
        nn.LeakyReLU,
        nn.PReLU,
        nn.ELU,
        nn.CELU,
        nn.SELU,
        nn.GELU,
        nn.SiLU,
        nn.Mish,
    ),
    *(nn.Hardtanh, nn.Hardswish, nn.Hardsigmoid, nn.Hardshrink, nn.Softshrink, nn.Tanhshrink, nn.Threshold),
    *(nn.Sigmoid, nn.LogSigmoid, nn.Tanh, nn.Softplus, nn.Softsign),
    *(nn.Softmax, nn.Softmin, nn.LogSoftmax, nn.Softmax2d),
    *(nn.LayerNorm, nn.RMSNorm, nn.LocalResponseNorm, nn.CrossMapLRN2d, nn.ChannelShuffle),
    *(nn.ZeroPad1d, nn.ZeroPad2d, nn.ZeroPad3d, nn.ConstantPad1d, nn.ConstantPad2d, nn.ConstantPad3d),
    *(nn.ReflectionPad1d, nn.ReflectionPad2d, nn.ReflectionPad3d, nn.ReplicationPad1d, nn.ReplicationPad2d),
    *(nn.ReplicationPad3d, nn.CircularPad1d, nn.CircularPad2d, nn.CircularPad3d),
)

RULES: dict[type[nn.Module], Rule] = {
    **dict.fromkeys(_ELEMENTWISE, _keep),
    nn.Linear: _linear,
    nn.Bilinear: _bilinear,
    nn.Embedding: _embedding,
    nn.EmbeddingBag: _embedding,
    nn.Conv1d: _conv(1),
    nn.Conv2d: _conv(2),
    nn.Conv3d: _conv(3),
    nn.ConvTranspose1d: _transposed(1),
    nn.ConvTranspose2d: _transposed(2),
    nn.ConvTranspose3d: _transposed(3),
    nn.BatchNorm1d: _channel_norm,
    nn.SyncBatchNorm: _channel_norm,
    nn.GroupNorm: _channel_norm,
    nn.BatchNorm2d: _norm(2),
    nn.BatchNorm3d: _norm(3),
    nn.InstanceNorm1d: _norm(1),
    nn.InstanceNorm2d: _norm(2),
    nn.InstanceNorm3d: _norm(3),
    **dict.fromkeys((nn.MaxPool1d, nn.AvgPool1d, nn.LPPool1d), _pool(1)),
    **dict.fromkeys((nn.MaxPool2d, nn.AvgPool2d, nn.LPPool2d), _pool(2)),
    **dict.fromkeys((nn.MaxPool3d, nn.AvgPool3d, nn.LPPool3d), _pool(3)),
    **dict.fromkeys((nn.AdaptiveAvgPool1d, nn.AdaptiveMaxPool1d), _adaptive(1)),
    **dict.fromkeys((nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d, nn.FractionalMaxPool2d), _adaptive(2)),
    **dict.fromkeys((nn.AdaptiveAvgPool3d, nn.AdaptiveMaxPool3d, nn.FractionalMaxPool3d), _adaptive(3)),
    nn.Upsample: _upsample,
    nn.PixelShuffle: _shuffle,
    nn.PixelUnshuffle: _unshuffle,
    nn.Flatten: _flatten,
    nn.GLU: _glu,
    nn.RNNBase: _recurrent,
    nn.MultiheadAttention: _attention,
    nn.TransformerEncoderLayer: _transformer_layer,
    nn.TransformerDecoderLayer: _transformer_layer,
    nn.TransformerEncoder: _transformer,
    RecurrentWrapper: _wrapped,
}


def after(layer: nn.Module, stream: Stream) -> Stream:
    """Return what is known after a layer; nothing, where its type is not in ``RULES``.

    Args:
        layer: Any module that is not a Record, an Apply or a container of layers.
        stream: What is known before it; the layer may teach it something.

    Example:
        >>> start = Stream.unknown()
        >>> after(nn.Linear(64, 32), start).size.value, start.size.value
        (32, 64)
    """
    for kind in type(layer).__mro__:
        rule = RULES.get(kind)
        if rule is not None:
            return rule(layer, stream)
    return Stream.unknown()
