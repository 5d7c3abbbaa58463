"""How many floating point operations a torch function takes: one table, two for a multiply-add.

The convention is that of ``torch.utils.flop_counter``: products of matrices, convolutions, attention and
recurrent layers count; what works element by element, norms and activations count nothing. The counter of
torch sits below the functions of torch and needs the meta device to see into attention and recurrent
layers; this table sits above them, so that a count costs nothing beside an ordinary run on the CPU.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from rescli.graph.einsum import einsum_flops

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a torch function: what went in and what came out.

    Args:
        args: The positional arguments; of a method, the tensor first.
        kwargs: The keyword arguments.
        out: What the call returned.
    """

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    out: Any

    def get(self, position: int, *names: str) -> Any:  # noqa: ANN401 - arguments of torch have any type
        """Read one argument, however it was passed.

        Args:
            position: Its place among the positional arguments.
            names: What it may be called as a keyword.

        Returns:
            The argument, or None if it was not passed.
        """
        if position < len(self.args):
            return self.args[position]
        return next((self.kwargs[name] for name in names if name in self.kwargs), None)

    def tensor(self, position: int, *names: str) -> Tensor:
        """Read an argument that must be a tensor.

        Args:
            position: Its place among the positional arguments.
            names: What it may be called as a keyword.

        Raises:
            TypeError: It is none, or was not passed.
        """
        value = self.get(position, *names)
        if isinstance(value, Tensor):
            return value
        raise TypeError(f"argument {position} is no tensor")

    @property
    def out_elements(self) -> int:
        """How many elements the one tensor has that was returned."""
        return int(self.out.numel())


def _linear(call: Call) -> int:
    # Each element of the output is one dot product over the last dimension of the input.
    return 2 * call.out_elements * call.tensor(0, "input", "self", "mat1").shape[-1]


def _reversed_matmul(call: Call) -> int:
    return 2 * call.out_elements * call.tensor(1, "other").shape[-1]


def _added_matmul(call: Call) -> int:
    """Count addmm, baddbmm and addmv: ``input + first @ second``."""
    return 2 * call.out_elements * call.tensor(1, "batch1", "mat1", "mat").shape[-1]


def _summed_matmul(call: Call) -> int:
    """Count addbmm, which adds the products of the whole batch up."""
    return 2 * call.tensor(1, "batch1").numel() * call.tensor(2, "batch2").shape[-1]


def _vecdot(call: Call) -> int:
    dim = int(call.kwargs.get("dim", -1))
    # Either may be stretched by broadcasting.
    return 2 * call.out_elements * max(call.tensor(0, "x").shape[dim], call.tensor(1, "y").shape[dim])


def _tensordot(call: Call) -> int:
    one, other = call.tensor(0, "a"), call.tensor(1, "b")
    # The summed dimensions are in both operands, all others in the output: a * b = out * summed^2.
    summed = math.isqrt(one.numel() * other.numel() // max(call.out_elements, 1))
    return 2 * call.out_elements * summed


def _convolution(call: Call) -> int:
    weight = call.tensor(1, "weight")
    # (out, in / groups, *kernel): what one element of the output sums over.
    return 2 * call.out_elements * weight.numel() // max(weight.shape[0], 1)


def _transposed_convolution(call: Call) -> int:
    weight = call.tensor(1, "weight")
    # (in, out / groups, *kernel): where one element of the input is added to.
    return 2 * call.tensor(0, "input").numel() * weight.numel() // max(weight.shape[0], 1)


def _any_convolution(call: Call) -> int:
    return _transposed_convolution(call) if call.get(6, "transposed") else _convolution(call)


def _conv_tbc(call: Call) -> int:
    kernel, channels_in, _ = call.tensor(1, "weight").shape
    return 2 * call.out_elements * kernel * channels_in


def _bilinear(call: Call) -> int:
    # x1 @ W, then the result with x2: the two products that a matrix library would take.
    first_input = call.tensor(0, "input1")
    out_features, first, second = call.tensor(2, "weight").shape
    rows = first_input.numel() // max(first, 1)
    return 2 * rows * out_features * (first * second + second)


def _attention(call: Call) -> int:
    query, key, value = call.tensor(0, "query"), call.tensor(1, "key"), call.tensor(2, "value")
    # Scores and weighted sum, in full: a causal mask hides half of the products but does not save them.
    rows = query.numel() // max(query.shape[-1], 1)
    return 2 * rows * key.shape[-2] * (query.shape[-1] + value.shape[-1])


def _multi_head_attention(call: Call) -> int:
    query, key, value = call.tensor(0, "query"), call.tensor(1, "key"), call.tensor(2, "value")
    width = int(call.get(3, "embed_dim_to_check"))
    # Into the layer go all three, out of it as many rows as there are queries.
    projected = sum(tensor.numel() for tensor in (query, key, value, query)) * width
    # Unbatched input has no dimension for the batch; else it comes second.
    batch = query.shape[1] if query.dim() == 3 else 1
    extra = int(call.get(7, "bias_k") is not None) + int(bool(call.get(9, "add_zero_attn")))
    scores = batch * query.shape[0] * (key.shape[0] + extra) * width
    return 2 * (projected + 2 * scores)


def _recurrent(call: Call) -> int:
    """Count a whole LSTM, GRU or RNN: each step multiplies with each weight matrix once."""
    data = call.tensor(0, "input")
    # The call for packed sequences has the sizes of its batches in second place.
    is_packed = isinstance(call.get(3, "params"), list | tuple)
    weights: list[Tensor] = call.get(3, "params") if is_packed else call.get(2, "params")
    steps = data.shape[0] if is_packed else math.prod(data.shape[:-1])
    return 2 * steps * sum(weight.numel() for weight in weights if weight.dim() == 2)


def _recurrent_cell(call: Call) -> int:
    rows = math.prod(call.tensor(0, "input").shape[:-1])
    return 2 * rows * (call.tensor(2, "w_ih").numel() + call.tensor(3, "w_hh").numel())


def _einsum(call: Call) -> int:
    equation, *operands = call.args
    if len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = list(operands[0])
    return einsum_flops(equation, operands)


FORMULAS: Mapping[str, Callable[[Call], int]] = {
    "linear": _linear,
    "matmul": _linear,
    "linalg_matmul": _linear,
    "__matmul__": _linear,
    "__imatmul__": _linear,
    "__rmatmul__": _reversed_matmul,
    "mm": _linear,
    "bmm": _linear,
    "mv": _linear,
    "dot": _linear,
    "vdot": _linear,
    "_int_mm": _linear,
    "_scaled_mm": _linear,
    "addmm": _added_matmul,
    "addmv": _added_matmul,
    "baddbmm": _added_matmul,
    "addbmm": _summed_matmul,
    "inner": _linear,
    "linalg_vecdot": _vecdot,
    "tensordot": _tensordot,
    "einsum": _einsum,
    "conv1d": _convolution,
    "conv2d": _convolution,
    "conv3d": _convolution,
    "conv_transpose1d": _transposed_convolution,
    "conv_transpose2d": _transposed_convolution,
    "conv_transpose3d": _transposed_convolution,
    "convolution": _any_convolution,
    "_convolution": _any_convolution,
    "conv_tbc": _conv_tbc,
    "bilinear": _bilinear,
    "scaled_dot_product_attention": _attention,
    "multi_head_attention_forward": _multi_head_attention,
    "lstm": _recurrent,
    "gru": _recurrent,
    "rnn_tanh": _recurrent,
    "rnn_relu": _recurrent,
    "lstm_cell": _recurrent_cell,
    "gru_cell": _recurrent_cell,
    "rnn_tanh_cell": _recurrent_cell,
    "rnn_relu_cell": _recurrent_cell,
}
"""From the name of a torch function to its count."""

# Functions that multiply and add a lot and for which there is no formula here: a total that holds one of
# them is a lower bound. Solvers and transforms, and kernels that replace whole layers.
WITHOUT_FORMULA = frozenset(
    {
        "_grouped_mm",
        "_native_multi_head_attention",
        "_sparse_mm",
        "_transformer_encoder_layer_fwd",
        "cdist",
        "chain_matmul",
        "cholesky",
        "cholesky_inverse",
        "cholesky_solve",
        "det",
        "geqrf",
        "grouped_mm",
        "hspmm",
        "inverse",
        "istft",
        "kron",
        "lobpcg",
        "logdet",
        "lu",
        "lu_solve",
        "lu_unpack",
        "matrix_exp",
        "matrix_power",
        "orgqr",
        "ormqr",
        "pca_lowrank",
        "pinverse",
        "qr",
        "scaled_grouped_mm",
        "scaled_mm",
        "slogdet",
        "smm",
        "sspaddmm",
        "stft",
        "svd",
        "svd_lowrank",
        "triangular_solve",
    }
)
_WITHOUT_FORMULA_PREFIXES = ("fft_", "linalg_")
# These of torch.linalg only rearrange, or reduce element by element.
_ELEMENTWISE_LINALG = frozenset({"linalg_cross", "linalg_diagonal", "linalg_norm", "linalg_vector_norm"})


def lacks_formula(name: str) -> bool:
    """Say whether a function multiplies and adds a lot, but is not in the table.

    Args:
        name: The function's own name, as ``fft_rfft``.

    Example:
        >>> lacks_formula("fft_rfft"), lacks_formula("linear"), lacks_formula("relu")
        (True, False, False)
    """
    if name in FORMULAS or name in _ELEMENTWISE_LINALG:
        return False
    return name in WITHOUT_FORMULA or name.startswith(_WITHOUT_FORMULA_PREFIXES)
