"""The example input of a block and where it comes from."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from rescli.errors import CommandLineError, SpecError
from rescli.spec.inputs import ExampleInput, example_input, resize
from rescli.spec.request import Request
from rescli.spec.shape import InputShape, parse_input

LINEAR = nn.Linear(64, 32)


def found(block: nn.Module, given: object = None, **request: object) -> ExampleInput:
    return example_input(block, "block", given, Request(**request))  # type: ignore[arg-type] # by keyword


def shapes(example: ExampleInput) -> list[tuple[int, ...]]:
    return [tuple(tensor.shape) for tensor in example.tensors]


def test_an_option_wins_over_the_spec_and_the_layers() -> None:
    example = found(LINEAR, (3, 64), inputs=(InputShape((2, 64)),))
    assert (shapes(example), example.origin) == ([(2, 64)], "option")


def test_several_options_are_several_inputs() -> None:
    example = found(nn.Bilinear(3, 5, 7), inputs=(parse_input("4x3"), parse_input("4x5:float64")))
    assert shapes(example) == [(4, 3), (4, 5)]
    assert [tensor.dtype for tensor in example.tensors] == [torch.float32, torch.float64]


def test_the_spec_wins_over_the_layers() -> None:
    example = found(LINEAR, (3, 64))
    assert (shapes(example), example.origin) == ([(3, 64)], "spec")


def test_the_layers_come_last() -> None:
    example = found(LINEAR)
    assert (shapes(example), example.origin) == ([(8, 64)], "inferred")
    assert example.tensors[0].dtype == torch.float32


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((3, 64), [(3, 64)]),
        ([3, 64], [(3, 64)]),
        ((7,), [(7,)]),
        (torch.Size([3, 64]), [(3, 64)]),
        (torch.zeros(5, 64), [(5, 64)]),
        ((torch.zeros(5, 64), torch.zeros(2)), [(5, 64), (2,)]),
        ((torch.zeros(5, 64), (5, 3)), [(5, 64), (5, 3)]),
        ({"block": (3, 64), "other": (9, 9)}, [(3, 64)]),
        ({"block": (torch.zeros(1), torch.zeros(2))}, [(1,), (2,)]),
    ],
)
def test_example_inputs_has_many_forms(given: object, expected: list[tuple[int, ...]]) -> None:
    example = found(LINEAR, given)
    assert (shapes(example), example.origin) == (expected, "spec")


def test_a_block_that_the_dict_leaves_out_is_worked_out() -> None:
    assert found(LINEAR, {"other": (3, 64)}).origin == "inferred"


@pytest.mark.parametrize("given", ["8x64", 8, (), (8, "64"), (True, 64), (-1, 64), {"block": "8x64"}])
def test_example_inputs_of_another_form_are_refused(given: object) -> None:
    with pytest.raises(SpecError, match="example_inputs is") as caught:
        found(LINEAR, given)
    assert "a tensor, a shape as (8, 64)" in caught.value.hint


def test_a_tensor_of_the_spec_keeps_its_values_and_is_not_handed_out_itself() -> None:
    own = torch.arange(6.0, requires_grad=True)
    (tensor,) = found(LINEAR, own).tensors
    assert torch.equal(tensor, own)
    assert tensor.data_ptr() != own.data_ptr()
    assert not tensor.requires_grad


def test_values_come_from_the_seed_and_leave_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    first, same, other = (found(LINEAR, seed=seed).tensors[0] for seed in (1, 1, 2))
    assert torch.equal(first, same)
    assert not torch.equal(first, other)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
def test_floating_inputs_have_the_type_of_the_block(dtype: str) -> None:
    block = nn.Linear(4, 4).to(getattr(torch, dtype))
    assert found(block).tensors[0].dtype == getattr(torch, dtype)


def test_a_requested_type_casts_floating_inputs_alone() -> None:
    example = found(LINEAR, (torch.zeros(2, 64), torch.zeros(2, dtype=torch.int64)), dtype="bfloat16")
    assert [tensor.dtype for tensor in example.tensors] == [torch.bfloat16, torch.int64]
    assert found(LINEAR, dtype="float64").tensors[0].dtype == torch.float64


def test_a_type_behind_the_shape_stays_what_it_says() -> None:
    assert (
        found(LINEAR, inputs=(parse_input("2x64:float32"),), dtype="bfloat16").tensors[0].dtype
        == torch.float32
    )


def test_indices_lie_in_the_table() -> None:
    (tensor,) = found(nn.Sequential(nn.Embedding(3, 4))).tensors
    assert tensor.dtype == torch.int64
    assert set(tensor.flatten().tolist()) == {0, 1, 2}


@pytest.mark.parametrize("text", ["50x9", "50x9:int32"])
def test_an_option_gives_indices_to_a_block_that_begins_with_a_table(text: str) -> None:
    (tensor,) = found(nn.Embedding(3, 4), inputs=(parse_input(text),)).tensors
    assert not tensor.is_floating_point()
    assert int(tensor.max()) == 2


def test_integers_for_an_unknown_use_are_small() -> None:
    (tensor,) = found(LINEAR, inputs=(parse_input("100:int64"),)).tensors
    assert set(tensor.tolist()) == {0, 1}


def test_integers_fit_the_smallest_table_of_the_block() -> None:
    class Lookup(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Linear(1, 1)
            self.words, self.places = nn.Embedding(1000, 4), nn.Embedding(5, 4)

    (tensor,) = found(Lookup(), inputs=(parse_input("500:int64"),)).tensors
    assert int(tensor.max()) == 4


@pytest.mark.parametrize(
    ("text", "dtype"), [("9:bool", torch.bool), ("9:uint8", torch.uint8), ("9:complex64", torch.complex64)]
)
def test_other_types_can_be_asked_for(text: str, dtype: torch.dtype) -> None:
    assert found(LINEAR, inputs=(parse_input(text),)).tensors[0].dtype == dtype


def test_a_block_on_meta_gets_an_input_on_meta() -> None:
    assert found(nn.Linear(4, 4, device="meta")).tensors[0].is_meta


def test_a_default_device_that_a_spec_has_set_changes_nothing() -> None:
    expected = found(LINEAR).tensors[0]
    with torch.device("meta"):
        (tensor,) = found(LINEAR).tensors
        (indices,) = found(LINEAR, inputs=(parse_input("3:int64"),)).tensors
    assert torch.equal(tensor, expected)
    assert indices.device.type == "cpu"


def test_what_cannot_be_worked_out_says_what_to_give() -> None:
    with pytest.raises(SpecError, match="the input of block cannot be worked out") as caught:
        found(nn.ReLU())
    assert caught.value.hint == (
        "give --input SHAPE, as --input 8x64, or say it in the spec: example_inputs = {'block': (8, 64)}"
    )


@pytest.mark.parametrize("text", ["99999999x99999999", "99999999999999999999"])
def test_an_input_larger_than_the_memory_is_refused(text: str) -> None:
    with pytest.raises(CommandLineError, match=f"an input of {text} does not fit into memory"):
        found(LINEAR, inputs=(parse_input(text),))


@pytest.mark.parametrize(
    ("block", "given", "expected"),
    [
        (LINEAR, None, [(3, 64)]),
        (LINEAR, (5, 64), [(3, 64)]),
        (nn.LSTM(4, 4), None, [(16, 3, 4)]),
        (nn.LSTM(4, 4), (7, 2, 4), [(7, 3, 4)]),
        (nn.LSTM(4, 4, batch_first=True), None, [(3, 16, 4)]),
        (nn.Bilinear(3, 5, 7), None, [(3, 3), (3, 5)]),
        (LINEAR, (torch.zeros(5, 64), torch.zeros(())), [(3, 64), ()]),
        (LINEAR, (torch.zeros(5, 64), torch.zeros(64, 64)), [(3, 64), (64, 64)]),
    ],
)
def test_the_batch_size_resizes_the_batch_dimension(
    block: nn.Module, given: object, expected: list[tuple[int, ...]]
) -> None:
    assert shapes(found(block, given, batch_size=3)) == expected


def test_a_larger_batch_repeats_the_items() -> None:
    (tensor,) = resize((torch.tensor([[1], [2]]),), 0, 5)
    assert tensor.flatten().tolist() == [1, 2, 1, 2, 1]


def test_inputs_without_a_batch_dimension_stay() -> None:
    tensors: tuple[Tensor, ...] = (torch.zeros(3),)
    assert resize(tensors, 1, 5)[0] is tensors[0]
    assert resize((), 0, 5) == ()
