"""What the first layers of a block say about its input.

The layers are walked in the order in which they were defined. The first that knows its sizes says how many
features or channels there are; whether these come as rows, sequences or pictures, a later one may decide:
``LayerNorm(64)`` takes any rank, the attention behind it wants sequences.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torch import nn
from torch.nn.modules.batchnorm import _NormBase  # the norms over channels share no public base class
from torch.nn.modules.conv import _ConvNd

from torchresidual import Apply, LearnableAlpha

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BATCH = 8
SEQUENCE = 16
# What a convolution or a norm over one, two or three dimensions gets to see.
PICTURE = {1: (64,), 2: (32, 32), 3: (16, 16, 16)}
_FEATURES_LAST = (nn.Linear, nn.LayerNorm, nn.RMSNorm, nn.Embedding)
_RESHAPING = (nn.Flatten, nn.Unflatten, nn.PixelShuffle, nn.PixelUnshuffle, nn.Fold, nn.Unfold)


@dataclass(frozen=True, slots=True)
class ExpectedInput:
    """What a block takes, as far as its layers tell.

    Args:
        shapes: A shape for each input.
        batch_dim: The dimension of these shapes that counts the items of the batch.
        below: The number below which integers must stay if the input is one of indices, else None.
    """

    shapes: tuple[tuple[int, ...], ...]
    batch_dim: int = 0
    below: int | None = None


def expected_input(block: nn.Module) -> ExpectedInput | None:
    """Work out from a block's own layers what it takes.

    Args:
        block: Any module; it is only looked at.

    Returns:
        The input, with a batch of 8 and usual sizes where the layers leave them open, or None if no layer
        tells its sizes.

    Example:
        >>> expected_input(nn.Sequential(nn.ReLU(), nn.Linear(64, 32))).shapes
        ((8, 64),)
        >>> expected_input(nn.Sequential(nn.LayerNorm(64), nn.LSTM(64, 32))).shapes
        ((16, 8, 64),)
    """
    if isinstance(block, (nn.MultiheadAttention, nn.Transformer, nn.TransformerDecoderLayer)):
        return _several_inputs(block)
    layers = _layers(block)
    for layer in layers:
        expected = _told_by(layer)
        if expected is not None:
            return _settle_rank(layer, expected, layers)
    return None


def _layers(module: nn.Module) -> Iterator[nn.Module]:
    """Walk the layers that know about sizes, in the order in which they were defined."""
    if isinstance(module, (Apply, LearnableAlpha)):
        return  # what lies in them sees the recorded tensor
    if _reader_of(module) is not None or next(module.children(), None) is None:
        yield module
        return
    for child in module.children():
        yield from _layers(child)


def _several_inputs(block: nn.Module) -> ExpectedInput:
    """Expect what the attention modules take when they are called by themselves."""
    if isinstance(block, nn.MultiheadAttention):
        sizes = (block.embed_dim, block.kdim, block.vdim)
        return _sequences(*sizes, batch_first=block.batch_first)
    if isinstance(block, nn.Transformer):
        return _sequences(block.d_model, block.d_model, batch_first=block.batch_first)
    assert isinstance(block, nn.TransformerDecoderLayer)  # noqa: S101 - the caller's last case
    width = block.self_attn.embed_dim
    return _sequences(width, width, batch_first=block.self_attn.batch_first)


def _sequences(*sizes: int, batch_first: bool) -> ExpectedInput:
    if batch_first:
        return ExpectedInput(tuple((BATCH, SEQUENCE, size) for size in sizes))
    return ExpectedInput(tuple((SEQUENCE, BATCH, size) for size in sizes), batch_dim=1)


def _rows(*sizes: int) -> ExpectedInput:
    return ExpectedInput(tuple((BATCH, size) for size in sizes))


def _linear(layer: nn.Linear) -> ExpectedInput:
    return _rows(layer.in_features)


def _bilinear(layer: nn.Bilinear) -> ExpectedInput:
    return _rows(layer.in1_features, layer.in2_features)


def _convolution(layer: _ConvNd) -> ExpectedInput:
    return ExpectedInput(((BATCH, layer.in_channels, *PICTURE[len(layer.kernel_size)]),))


def _embedding(layer: nn.Embedding | nn.EmbeddingBag) -> ExpectedInput:
    return ExpectedInput(((BATCH, SEQUENCE),), below=layer.num_embeddings)


def _recurrent(layer: nn.RNNBase) -> ExpectedInput:
    return _sequences(layer.input_size, batch_first=layer.batch_first)


def _cell(layer: nn.RNNCellBase) -> ExpectedInput:
    return _rows(layer.input_size)


def _attention(layer: nn.MultiheadAttention) -> ExpectedInput:
    return _sequences(layer.embed_dim, batch_first=layer.batch_first)


def _encoder_layer(layer: nn.TransformerEncoderLayer) -> ExpectedInput:
    return _attention(layer.self_attn)


def _layer_norm(layer: nn.LayerNorm | nn.RMSNorm) -> ExpectedInput:
    return ExpectedInput(((BATCH, *layer.normalized_shape),))


def _group_norm(layer: nn.GroupNorm) -> ExpectedInput:
    return _rows(layer.num_channels)


def _channel_norm(layer: _NormBase) -> ExpectedInput:
    dimensions = next((n for n in PICTURE if f"{n}d" in type(layer).__name__), 0)
    if dimensions == 1 and isinstance(layer, nn.BatchNorm1d):
        return _rows(layer.num_features)
    return ExpectedInput(((BATCH, layer.num_features, *PICTURE.get(dimensions, ())),))


# The first row that fits a layer reads its sizes.
_READERS: tuple[tuple[type[nn.Module], Callable[..., ExpectedInput]], ...] = (
    (nn.Linear, _linear),
    (nn.Bilinear, _bilinear),
    (_ConvNd, _convolution),
    (nn.Embedding, _embedding),
    (nn.EmbeddingBag, _embedding),
    (nn.RNNBase, _recurrent),
    (nn.RNNCellBase, _cell),
    (nn.MultiheadAttention, _attention),
    (nn.TransformerEncoderLayer, _encoder_layer),
    (nn.LayerNorm, _layer_norm),
    (nn.RMSNorm, _layer_norm),
    (nn.GroupNorm, _group_norm),
    (_NormBase, _channel_norm),
)


def _reader_of(layer: nn.Module) -> Callable[..., ExpectedInput] | None:
    return next((reader for kind, reader in _READERS if isinstance(layer, kind)), None)


def _told_by(layer: nn.Module) -> ExpectedInput | None:
    reader = _reader_of(layer)
    if reader is None:
        return None
    expected = reader(layer)
    # Lazy layers say 0 until they have seen a first input.
    return None if any(0 in shape for shape in expected.shapes) else expected


def _settle_rank(first: nn.Module, expected: ExpectedInput, rest: Iterator[nn.Module]) -> ExpectedInput:
    """Let the layers behind the first one decide what it leaves open.

    Args:
        first: The layer that told the sizes.
        expected: What it takes, in its simplest form.
        rest: The layers behind it.
    """
    if isinstance(first, _FEATURES_LAST):
        return _settle_sequence(expected, rest)
    if isinstance(first, (nn.GroupNorm, nn.BatchNorm1d)):
        return _settle_picture(expected, rest)
    return expected


def _settle_sequence(expected: ExpectedInput, rest: Iterator[nn.Module]) -> ExpectedInput:
    (shape,) = expected.shapes
    for layer in rest:
        if isinstance(layer, _RESHAPING) or len(shape) > 2:
            break
        told = _told_by(layer)
        if told is None or isinstance(layer, _FEATURES_LAST):
            continue
        if isinstance(layer, (nn.RNNBase, nn.MultiheadAttention, nn.TransformerEncoderLayer)):
            sizes = (SEQUENCE, BATCH) if told.batch_dim else (BATCH, SEQUENCE)
            shape = sizes if expected.below else (*sizes, shape[-1])
            return replace(expected, shapes=(shape,), batch_dim=told.batch_dim)
        if isinstance(layer, _ConvNd) and not expected.below:
            # The convolution's channels stand where a linear layer leaves the other dimensions alone.
            return replace(expected, shapes=((*told.shapes[0][:-1], shape[-1]),))
        break
    return expected


def _settle_picture(expected: ExpectedInput, rest: Iterator[nn.Module]) -> ExpectedInput:
    (shape,) = expected.shapes
    for layer in rest:
        if isinstance(layer, _RESHAPING):
            break
        told = _told_by(layer)
        if told is None or isinstance(layer, (nn.GroupNorm, nn.BatchNorm1d)):
            continue
        if isinstance(layer, (_ConvNd, _NormBase)):
            return replace(expected, shapes=((*shape, *told.shapes[0][2:]),))
        break
    return expected
