"""The sizes of a layer in a few characters, as they stand behind its name in the listing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn
from torch.nn.utils import parametrize

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# The text of details is plain ASCII; what draws them may turn "->" into an arrow.


def type_name(module: nn.Module) -> str:
    """Name the class of a module as its author wrote it.

    Args:
        module: Any module. One that carries parametrizations has a class made up by torch.
    """
    kind = type(module)
    if parametrize.is_parametrized(module):
        kind = kind.__mro__[1]
    return kind.__name__


def detail_of(module: nn.Module) -> str:
    """Write the sizes of a module in short, or nothing where the class is not known.

    Args:
        module: Any module; a subclass of a known class is written like that class.

    Example:
        >>> detail_of(nn.Conv2d(64, 128, 3, stride=2, padding=1))
        '64 -> 128 k3 s2 p1'
    """
    for kind in type(module).__mro__:
        write = _DETAILS.get(kind)
        if write is not None:
            return write(module)
    return ""


def _convolution(layer: Any) -> str:  # noqa: ANN401 - nn.Conv1d to nn.ConvTranspose3d
    parts = [f"{layer.in_channels} -> {layer.out_channels}", f"k{_sizes(layer.kernel_size)}"]
    parts += [f"s{_sizes(layer.stride)}"] if _differs(layer.stride, 1) else []
    parts += [f"p{_sizes(layer.padding)}"] if _differs(layer.padding, 0) else []
    parts += [f"d{_sizes(layer.dilation)}"] if _differs(layer.dilation, 1) else []
    parts += [f"g{layer.groups}"] if layer.groups != 1 else []
    return " ".join(parts)


def _pooling(layer: Any) -> str:  # noqa: ANN401 - nn.MaxPool1d to nn.AvgPool3d
    parts = [f"k{_sizes(layer.kernel_size)}"]
    # A pool of torch moves by its own size if nothing else is said.
    strides = _sizes(layer.kernel_size if layer.stride is None else layer.stride)
    parts += [f"s{strides}"] if strides != _sizes(layer.kernel_size) else []
    parts += [f"p{_sizes(layer.padding)}"] if _differs(layer.padding, 0) else []
    return " ".join(parts)


def _recurrent(layer: Any) -> str:  # noqa: ANN401 - nn.LSTM, nn.GRU, nn.RNN
    parts = [f"{layer.input_size} -> {layer.proj_size or layer.hidden_size}"]
    parts += [f"x{layer.num_layers}"] if layer.num_layers > 1 else []
    parts += ["bidirectional"] if layer.bidirectional else []
    return " ".join(parts)


def _activation(layer: Any) -> str:  # noqa: ANN401 - those that have the option
    return "in place" if layer.inplace else ""


def _dropout(layer: Any) -> str:  # noqa: ANN401 - nn.Dropout and its likes
    return f"p={layer.p:g}"


def _batch_norm(layer: Any) -> str:  # noqa: ANN401 - nn.BatchNorm1d to nn.InstanceNorm3d
    return str(layer.num_features)


def _upsampling(layer: Any) -> str:  # noqa: ANN401 - nn.Upsample
    size = f"x{layer.scale_factor:g}" if isinstance(layer.scale_factor, float) else f"to {_sizes(layer.size)}"
    return f"{size} {layer.mode}"


def _sizes(value: object) -> str:
    """Write one size for all dimensions, or each: ``3``, ``3x5``."""
    if not isinstance(value, tuple):
        return str(value)
    return str(value[0]) if len(set(value)) == 1 else "x".join(map(str, value))


def _differs(value: object, usual: int) -> bool:
    return any(size != usual for size in value) if isinstance(value, tuple) else value != usual


_DETAILS: Mapping[type, Callable[[Any], str]] = {
    nn.Linear: lambda layer: f"{layer.in_features} -> {layer.out_features}",
    nn.Bilinear: lambda layer: f"{layer.in1_features}, {layer.in2_features} -> {layer.out_features}",
    nn.modules.conv._ConvNd: _convolution,  # noqa: SLF001 - the common base has no public name
    nn.modules.pooling._MaxPoolNd: _pooling,  # noqa: SLF001 - likewise
    nn.modules.pooling._AvgPoolNd: _pooling,  # noqa: SLF001 - likewise
    nn.modules.batchnorm._NormBase: _batch_norm,  # noqa: SLF001 - likewise
    nn.modules.dropout._DropoutNd: _dropout,  # noqa: SLF001 - likewise
    nn.modules.rnn.RNNBase: _recurrent,
    nn.modules.rnn.RNNCellBase: lambda layer: f"{layer.input_size} -> {layer.hidden_size}",
    nn.LayerNorm: lambda layer: _sizes(layer.normalized_shape),
    nn.RMSNorm: lambda layer: _sizes(layer.normalized_shape),
    nn.GroupNorm: lambda layer: f"{layer.num_channels} in {layer.num_groups} groups",
    nn.Embedding: lambda layer: f"{layer.num_embeddings} x {layer.embedding_dim}",
    nn.MultiheadAttention: lambda layer: (
        f"{layer.embed_dim}, {layer.num_heads} head{'s'[: layer.num_heads > 1]}"
    ),
    nn.Upsample: _upsampling,
    nn.ReLU: _activation,
    nn.ReLU6: _activation,
    nn.LeakyReLU: _activation,
    nn.ELU: _activation,
    nn.SiLU: _activation,
    nn.Hardswish: _activation,
}
