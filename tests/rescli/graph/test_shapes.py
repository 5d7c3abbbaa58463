from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from rescli.graph.shapes import known_result

if TYPE_CHECKING:
    from collections.abc import Callable


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


X, WEIGHT, HALF = meta(2, 3, 8), meta(4, 8), meta(2, 8, dtype=torch.float16)


@pytest.mark.parametrize(
    ("func", "args", "kwargs"),
    [
        (functional.linear, (X, WEIGHT, meta(4)), {}),
        (functional.linear, (HALF, meta(3, 8, dtype=torch.float16), None), {}),
        (functional.layer_norm, (X, (3, 8)), {"weight": meta(3, 8), "bias": None, "eps": 1e-5}),
        (torch.add, (X, X), {"alpha": 0.5}),
        (torch.add, (HALF, 2.0), {}),
        (Tensor.mul, (X, X), {}),
        (functional.relu, (X,), {"inplace": False}),
        (functional.gelu, (HALF,), {"approximate": "tanh"}),
    ],
)
def test_what_is_known_is_what_torch_gives(
    func: Callable[..., Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    expected, found = func(*args, **kwargs), known_result(func, args, kwargs)
    assert found is not None
    assert found.is_meta
    assert (found.shape, found.dtype, found.stride()) == (expected.shape, expected.dtype, expected.stride())


@pytest.mark.parametrize(
    ("func", "args", "kwargs"),
    [
        (functional.linear, (X, meta(4, 9), None), {}),
        (functional.linear, (X, WEIGHT, meta(5)), {}),
        (functional.linear, (X, meta(4, 8, dtype=torch.float64), None), {}),
        (functional.layer_norm, (X, (8,)), {"weight": meta(9)}),
        (functional.layer_norm, (X, (7,)), {}),
        (torch.add, (X, meta(8)), {}),
        (torch.add, (X, X), {"out": X}),
        (torch.add, (HALF, meta(2, 8)), {}),
        (torch.add, (meta(2, dtype=torch.int64), 2), {}),
        (torch.add, (X.transpose(0, 1), X.transpose(0, 1)), {}),
        (torch.add, (X, torch.zeros(2, 3, 8)), {}),
        (functional.relu, (X,), {"inplace": True}),
        (torch.matmul, (X, X), {}),
        (torch.add, (), {}),
    ],
)
def test_everything_else_is_left_to_torch(
    func: Callable[..., Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    assert known_result(func, args, kwargs) is None


def test_under_vmap_shapes_are_not_what_they_seem() -> None:
    seen: list[Tensor | None] = []

    def body(x: Tensor) -> Tensor:
        seen.append(known_result(torch.relu, (x,), {}))
        return x.clone()

    torch.vmap(body)(X)
    assert seen == [None]
