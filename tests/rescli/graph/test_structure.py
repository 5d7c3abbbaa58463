from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from rescli.graph.structure import describe, dtype_name, first_tensor, has_size, map_tensors, tensors_in


class Pair(NamedTuple):
    one: Tensor
    other: object


def test_tensors_are_found_in_nested_containers_in_order() -> None:
    a, b, c = torch.zeros(1), torch.zeros(2), torch.zeros(3)
    assert list(tensors_in([a, {"k": (b, None)}, "text", Pair(c, 1)])) == [a, b, c]
    assert first_tensor({"k": [None, b]}) is b
    assert first_tensor("text") is None


def test_containers_are_rebuilt_with_their_types() -> None:
    value = Pair(torch.zeros(2), [torch.zeros(3), {"k": torch.zeros(1), "n": 4}])
    rebuilt = map_tensors(value, lambda tensor: tensor + 1)
    assert isinstance(rebuilt, Pair)
    assert rebuilt.one.equal(torch.ones(2))
    assert describe(rebuilt) == "[(2,), [(3,), {k: (1,), n: 4}]]"
    assert value.one.equal(torch.zeros(2))


def test_structures_are_described_with_shapes_and_types() -> None:
    assert describe(torch.zeros(4, 8)) == "(4, 8)"
    assert describe(torch.zeros(())) == "()"
    assert describe((None, True, 2.5, "text", object())) == "[None, True, 2.5, str, object]"
    assert describe([torch.zeros(1)] * 9) == "[(1,), (1,), (1,), (1,), (1,), (1,), and 3 more]"
    assert describe(pack_padded_sequence(torch.zeros(3, 2, 4), torch.tensor([3, 1]))) == "packed (4, 4)"


def test_types_are_named_without_their_package() -> None:
    assert dtype_name(torch.bfloat16) == "bfloat16"


def test_a_parameter_that_is_still_to_be_made_has_no_size() -> None:
    assert has_size(nn.Linear(2, 2).weight)
    assert not has_size(nn.LazyLinear(2).weight)
