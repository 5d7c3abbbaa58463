from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from types import SimpleNamespace
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from rescli.graph.structure import (
    describe,
    dtype_name,
    first_tensor,
    has_size,
    map_tensors,
    memory_format_of,
    tensors_in,
)


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
    assert describe(rebuilt) == "Pair(one: (2,), other: [(3,), {k: (1,), n: 4}])"
    assert value.one.equal(torch.zeros(2))


def test_structures_are_described_with_shapes_and_types() -> None:
    assert describe(torch.zeros(4, 8)) == "(4, 8)"
    assert describe(torch.zeros(())) == "()"
    assert describe((None, True, 2.5, "text", object())) == "[None, True, 2.5, str, object]"
    assert describe([torch.zeros(1)] * 9) == "[(1,), (1,), (1,), (1,), (1,), (1,), and 3 more]"
    assert describe(pack_padded_sequence(torch.zeros(3, 2, 4), torch.tensor([3, 1]))) == "packed (4, 4)"


@dataclass
class Output:
    logits: Tensor
    loss: Tensor | None = None
    inner: object = None


@dataclass(frozen=True, slots=True)
class Frozen:
    mean: Tensor
    name: str = "normal"


class Holder:
    """An object as somebody writes it, with a way back to itself."""

    def __init__(self, tensor: Tensor) -> None:
        self.name = "holder"
        self.values = [tensor]
        self.me = self
        self.layer = nn.Linear(2, 2)


class Cached(OrderedDict[str, Tensor]):
    """A mapping with a class of its own."""


def test_tensors_are_found_in_objects_of_all_kinds() -> None:
    a, b = torch.zeros(1), torch.zeros(2)
    assert list(tensors_in(Output(a, inner={"k": Frozen(b)}))) == [a, b]
    # The layer's parameters are no output, and the way back is walked once.
    assert list(tensors_in(Holder(a))) == [a]
    assert list(tensors_in(SimpleNamespace(x=Output(a, b)))) == [a, b]
    assert list(tensors_in([torch.distributions.Normal(a, b.new_ones(1)), nn.Linear(2, 2), Output, len])) == [
        a.expand(1),
        b.new_ones(1),
    ]
    assert first_tensor(Cached(k=b)) is b
    assert first_tensor(Output) is None


def test_objects_are_described_by_class_and_names() -> None:
    a = torch.zeros(4, 8)
    assert describe(Output(a)) == "Output(logits: (4, 8), loss: None, inner: None)"
    assert describe((Frozen(a), 1)) == "[Frozen(mean: (4, 8), name: str), 1]"
    assert describe(Holder(a)) == "Holder(values: [(4, 8)])"
    assert describe(Cached(k=a)) == "Cached{k: (4, 8)}"
    assert describe(OrderedDict(k=a)) == "{k: (4, 8)}"
    assert describe(SimpleNamespace(text="no tensor")) == "SimpleNamespace"
    assert describe(Frozen) == "type"
    assert describe(torch.max(a, dim=0)) == "[(8,), (8,)]"


def test_a_dataclass_is_rebuilt_and_the_old_one_stays_as_it_is() -> None:
    value = Output(torch.zeros(2), inner=Frozen(torch.zeros(3)))
    rebuilt = map_tensors(value, lambda tensor: tensor + 1)
    assert isinstance(rebuilt, Output)
    assert isinstance(rebuilt.inner, Frozen)
    assert (rebuilt.logits.tolist(), rebuilt.inner.mean.tolist(), rebuilt.inner.name) == (
        [1, 1],
        [1, 1, 1],
        "normal",
    )
    assert value.logits.tolist() == [0, 0]
    assert value.inner is not rebuilt.inner
    unchanged = SimpleNamespace(text="t")
    assert map_tensors(unchanged, lambda tensor: tensor) is unchanged


def test_types_are_named_without_their_package() -> None:
    assert dtype_name(torch.bfloat16) == "bfloat16"


def test_a_parameter_that_is_still_to_be_made_has_no_size() -> None:
    assert has_size(nn.Linear(2, 2).weight)
    assert not has_size(nn.LazyLinear(2).weight)


def test_the_order_in_memory_is_told_where_there_is_one() -> None:
    pictures, volumes = torch.zeros(2, 8, 4, 4), torch.zeros(2, 8, 3, 4, 4)
    assert memory_format_of(pictures) == "contiguous"
    assert memory_format_of(pictures.to(memory_format=torch.channels_last)) == "channels_last"
    assert memory_format_of(volumes.to(memory_format=torch.channels_last_3d)) == "channels_last_3d"
    assert memory_format_of(pictures.transpose(0, 1)) == "strided"
    assert memory_format_of(torch.zeros(3, 4).to_sparse()) is None
