"""Counts against torch's own counter, which works below the functions that ours works on."""

from __future__ import annotations

import contextlib
import copy
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.flop_counter import FlopCounterMode

from rescli.graph.flops import Account, FlopMeter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Shape = tuple[int, ...]


def ours(function: Callable[..., object], *tensors: Tensor, known: tuple[Tensor, ...] = ()) -> Account:
    with torch.no_grad(), FlopMeter([*tensors, *known]) as meter:
        function(*tensors)
    account: Account = meter.account
    return account


@contextlib.contextmanager
def without_fast_paths() -> Iterator[None]:
    enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(enabled)


def theirs(function: Callable[..., object], *tensors: Tensor) -> int:
    """Count on meta with the fast paths off: only there does torch's counter see into every layer."""
    with without_fast_paths(), torch.no_grad(), FlopCounterMode(display=False) as counter:
        function(*(tensor.to("meta") for tensor in tensors))
    return int(counter.get_total_flops())


FUNCTIONS: dict[str, tuple[Callable[..., object], tuple[Shape, ...]]] = {
    "linear": (functional.linear, ((8, 3, 4), (5, 4), (5,))),
    "linear of a vector": (functional.linear, ((4,), (5, 4))),
    "linear by keyword": (lambda x, w: functional.linear(input=x, weight=w), ((3, 4), (5, 4))),
    "matmul": (torch.matmul, ((8, 3, 4), (4, 5))),
    "matmul with broadcasting": (torch.matmul, ((2, 1, 3, 4), (7, 4, 5))),
    "matmul of a vector": (torch.matmul, ((4,), (4, 5))),
    "matmul by keyword": (lambda a, b: torch.matmul(input=a, other=b), ((3, 4), (4, 5))),
    "mm by keyword": (lambda a, b: torch.mm(a, mat2=b), ((3, 4), (4, 5))),
    "the operator @": (lambda a, b: a @ b, ((3, 4), (4, 5))),
    "the reflected operator @": (lambda a, b: b.__rmatmul__(a), ((3, 4), (4, 5))),
    "bmm": (torch.bmm, ((2, 3, 4), (2, 4, 5))),
    "addmm": (torch.addmm, ((3, 5), (3, 4), (4, 5))),
    "baddbmm": (torch.baddbmm, ((2, 3, 5), (2, 3, 4), (2, 4, 5))),
    "inner": (torch.inner, ((3, 4), (5, 4))),
    "tensordot": (lambda a, b: torch.tensordot(a, b, 2), ((3, 4, 5), (4, 5, 6))),
    "an operator of aten": (torch.ops.aten.mm, ((3, 4), (4, 5))),
    "an overload of aten": (torch.ops.aten.addmm.default, ((4, 5), (4, 3), (3, 5))),
    "conv1d": (lambda x, w: functional.conv1d(x, w, stride=2, padding=1), ((2, 4, 15), (6, 4, 3))),
    "conv2d in groups": (
        lambda x, w: functional.conv2d(x, w, groups=2, padding="same"),
        ((2, 4, 15, 9), (6, 2, 3, 3)),
    ),
    "conv2d without a batch": (functional.conv2d, ((4, 15, 9), (6, 4, 3, 3))),
    "conv3d dilated": (lambda x, w: functional.conv3d(x, w, dilation=2), ((2, 4, 9, 9, 9), (6, 4, 3, 3, 3))),
    "conv_transpose1d": (lambda x, w: functional.conv_transpose1d(x, w, stride=2), ((2, 4, 15), (4, 6, 3))),
    "conv_transpose2d in groups": (
        lambda x, w: functional.conv_transpose2d(x, w, groups=2, stride=2, output_padding=1),
        ((2, 4, 7, 7), (4, 3, 3, 3)),
    ),
    "conv_transpose3d": (functional.conv_transpose3d, ((2, 4, 5, 5, 5), (4, 3, 2, 2, 2))),
    "attention": (functional.scaled_dot_product_attention, ((2, 3, 10, 8), (2, 3, 12, 8), (2, 3, 12, 6))),
    "causal attention": (
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True),
        ((2, 3, 10, 8), (2, 3, 10, 8), (2, 3, 10, 8)),
    ),
    "attention with shared keys": (
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        ((2, 6, 10, 8), (2, 3, 12, 8), (2, 3, 12, 8)),
    ),
    "what works element by element": (lambda a, b: torch.relu(a * b + a).sum(), ((3, 4), (3, 4))),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_counts_what_torch_counts(name: str) -> None:
    function, shapes = FUNCTIONS[name]
    tensors = [torch.zeros(shape) for shape in shapes]
    assert ours(function, *tensors) == Account(theirs(function, *tensors))


def test_products_that_torch_forgets_are_counted_by_their_definition() -> None:
    vector, matrix, batch = torch.zeros(4), torch.zeros(3, 4), torch.zeros(2, 3, 4)
    assert ours(torch.mv, matrix, vector).flops == 2 * 3 * 4
    assert ours(torch.dot, vector, vector).flops == 2 * 4
    assert ours(torch.addmv, torch.zeros(3), matrix, vector).flops == 2 * 3 * 4
    assert ours(torch.addbmm, torch.zeros(3, 5), batch, torch.zeros(2, 4, 5)).flops == 2 * 2 * 3 * 4 * 5
    assert ours(torch.linalg.vecdot, matrix, matrix).flops == 2 * 3 * 4
    in_place = ours(lambda x, a, b: x.addmm_(a, b), torch.zeros(3, 5), matrix, torch.zeros(4, 5))
    assert in_place.flops == 2 * 3 * 4 * 5
    in_time = ours(torch.conv_tbc, torch.zeros(9, 2, 4), torch.zeros(3, 4, 5), torch.zeros(5))
    assert in_time.flops == 2 * (7 * 2 * 5) * 3 * 4
    # x1 @ W and the product of that with x2.
    pairs = ours(functional.bilinear, torch.zeros(6, 3), torch.zeros(6, 4), torch.zeros(5, 3, 4))
    assert pairs.flops == 2 * 6 * 5 * 3 * 4 + 2 * 6 * 5 * 4
    rows = ours(lambda x: [row @ row for row in x], matrix)
    assert rows == Account(3 * 2 * 4)


def _self_attention(layer: nn.Module, x: Tensor) -> object:
    return layer(x, x, x)


def _packed(layer: nn.Module, x: Tensor) -> object:
    return layer(pack_padded_sequence(x, torch.tensor([5, 4, 2])))


def _call(layer: nn.Module, *inputs: Tensor) -> object:
    return layer(*inputs)


LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[Shape, ...], Callable[..., object]]] = {
    "attention": (lambda: nn.MultiheadAttention(16, 4, batch_first=True), ((2, 10, 16),), _self_attention),
    "attention without a batch": (lambda: nn.MultiheadAttention(16, 4), ((10, 16),), _self_attention),
    "attention over other sizes": (
        lambda: nn.MultiheadAttention(16, 4, kdim=12, vdim=20, add_bias_kv=True, add_zero_attn=True),
        ((10, 2, 16), (7, 2, 12), (7, 2, 20)),
        _call,
    ),
    "transformer encoder layer": (
        lambda: nn.TransformerEncoderLayer(16, 2, 32, batch_first=True),
        ((2, 10, 16),),
        _call,
    ),
    "transformer decoder layer": (
        lambda: nn.TransformerDecoderLayer(16, 2, 32, batch_first=True),
        ((2, 10, 16), (2, 7, 16)),
        _call,
    ),
    "lstm": (lambda: nn.LSTM(10, 20), ((5, 3, 10),), _call),
    "lstm both ways in layers": (
        lambda: nn.LSTM(10, 20, 3, bidirectional=True, batch_first=True),
        ((5, 3, 10),),
        _call,
    ),
    "gru without bias": (
        lambda: nn.GRU(10, 20, 2, bidirectional=True, bias=False),
        ((5, 3, 10),),
        _call,
    ),
    "rnn": (lambda: nn.RNN(10, 20, 2), ((5, 3, 10),), _call),
    "rnn with relu, without a batch": (lambda: nn.RNN(10, 20, nonlinearity="relu"), ((5, 10),), _call),
    "packed lstm": (lambda: nn.LSTM(10, 20, bidirectional=True), ((5, 3, 10),), _packed),
    "packed gru": (lambda: nn.GRU(10, 20), ((5, 3, 10),), _packed),
    "packed rnn": (lambda: nn.RNN(10, 20), ((5, 3, 10),), _packed),
    "lstm cell": (lambda: nn.LSTMCell(10, 20), ((5, 10),), _call),
    "gru cell": (lambda: nn.GRUCell(10, 20), ((10,),), _call),
    "rnn cell": (lambda: nn.RNNCell(10, 20), ((5, 10),), _call),
    "circular convolution": (
        lambda: nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular"),
        ((2, 3, 8, 8),),
        _call,
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_counts_what_torch_counts(name: str) -> None:
    make, shapes, call = LAYERS[name]
    layer = make().eval()
    twin = copy.deepcopy(layer).to("meta")
    tensors = [torch.zeros(shape) for shape in shapes]
    known = (*layer.parameters(), *layer.buffers())
    counted = ours(lambda *inputs: call(layer, *inputs), *tensors, known=known)
    assert counted == Account(theirs(lambda *inputs: call(twin, *inputs), *tensors))
    assert counted.flops > 0


def test_an_lstm_with_a_projection_counts_all_three_matrices() -> None:
    layer = nn.LSTM(10, 20, proj_size=6).to("meta").eval()
    x = torch.zeros(5, 3, 10, device="meta")
    counted = ours(layer, x, known=tuple(layer.parameters()))
    assert counted == Account(2 * 15 * (80 * 10 + 80 * 6 + 6 * 20))
    assert counted == Account(theirs(layer, x))


class Product(torch.autograd.Function):
    """A product hidden in an autograd function, and there from everything that watches torch functions."""

    @staticmethod
    def forward(_: object, x: Tensor, weight: Tensor) -> Tensor:
        with torch._C.DisableTorchFunction():
            return x.mm(weight)


@torch.library.custom_op("rescli_test::triple", mutates_args=())
def _triple(x: Tensor) -> Tensor:
    return 3 * x


class Visible(torch.autograd.Function):
    """A product in an autograd function that watches can see."""

    @staticmethod
    def forward(_: object, x: Tensor) -> Tensor:
        return x.mm(x)


product: Callable[[Tensor, Tensor], Tensor] = Product.apply
visible: Callable[[Tensor], Tensor] = Visible.apply

HOLES: dict[str, Callable[[Tensor], object]] = {
    "a transform": torch.fft.rfft,
    "a decomposition": torch.linalg.svd,
    "distances": lambda x: torch.cdist(x, x),
    "a function under vmap": torch.vmap(lambda row: row @ row),
    "a sparse product": lambda x: x.to_sparse() @ x,
    "an autograd function in another language": lambda x: product(x, x) + 1,
    "a kernel of another library": torch.ops.rescli_test.triple,
}


@pytest.mark.parametrize("name", HOLES)
def test_what_cannot_be_counted_makes_a_hole(name: str) -> None:
    account = Account()
    x = torch.ones(4, 4)
    with torch.no_grad(), FlopMeter([x]) as meter:
        meter.account = account
        meter.check(HOLES[name](x))
    assert account.has_holes


NO_HOLES: dict[str, Callable[[Tensor], object]] = {
    "norms": lambda x: torch.linalg.norm(functional.layer_norm(x, (4,))),
    "tensors made on the way": lambda x: x + torch.arange(4.0) + x.new_zeros(4) + torch.tensor(2.0),
    "views and parts": lambda x: [part.T @ x for part in x.chunk(1)],
    "the rows of a tensor": lambda x: sum(row @ row for row in x),
    "an autograd function in Python": lambda x: visible(x) + 1,
}


@pytest.mark.parametrize("name", NO_HOLES)
def test_what_can_be_counted_makes_no_hole(name: str) -> None:
    account = Account()
    x = torch.ones(4, 4)
    with torch.no_grad(), FlopMeter([x]) as meter:
        meter.account = account
        meter.check(NO_HOLES[name](x))
    assert not account.has_holes


def test_a_form_that_the_formula_does_not_know_is_a_hole_and_no_crash(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(_: object) -> int:
        raise TypeError

    monkeypatch.setitem(FlopMeter._charge.__globals__["FORMULAS"], "mm", broken)
    assert ours(torch.mm, torch.zeros(2, 3), torch.zeros(3, 4)) == Account(0, has_holes=True)
