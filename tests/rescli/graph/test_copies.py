from __future__ import annotations

import threading
import warnings
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from rescli.errors import SpecError
from rescli.graph.copies import copy_block, suitable_device, untouched_rng

if TYPE_CHECKING:
    from rescli.graph.copies import Device


def test_small_blocks_run_for_real_and_large_ones_without_data() -> None:
    with torch.device("meta"):
        large = nn.Linear(4_000, 5_001)
    assert suitable_device(nn.Linear(4, 4), (torch.zeros(2, 4),)) == "cpu"
    assert suitable_device(nn.ReLU(), (torch.zeros(1_000_001),)) == "meta"
    # Its size would decide the same if it had data.
    assert suitable_device(large, (torch.zeros(2, 4_000),)) == "meta"


def test_parameters_are_counted_to_find_out_what_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rescli.graph.copies._MOST_REAL_PARAMETERS", 20)
    assert suitable_device(nn.Linear(4, 4), (torch.zeros(2, 4),)) == "cpu"
    assert suitable_device(nn.Linear(4, 5), (torch.zeros(2, 4),)) == "meta"


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_the_copy_shares_no_memory_and_is_in_evaluation_mode(device: Device) -> None:
    block = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    twin = copy_block(block, device).module
    assert not twin.training
    assert block.training
    addresses = {tensor.data_ptr() for tensor in block.state_dict().values()}
    for mine, yours in zip(twin.state_dict().values(), block.state_dict().values(), strict=True):
        assert (mine.shape, mine.dtype, mine.device.type) == (yours.shape, yours.dtype, device)
        assert device == "meta" or (mine.equal(yours) and mine.data_ptr() not in addresses)
    assert [parameter.requires_grad for parameter in twin.parameters()] == [True] * 4


def test_tensors_kept_as_plain_attributes_move_too_and_stay_shared() -> None:
    block = nn.Linear(2, 2)
    mask = torch.ones(3)
    vars(block).update(mask=mask, options={"masks": [mask]})
    twin: Any = copy_block(block, "meta").module
    assert twin.mask.is_meta
    assert twin.mask is twin.options["masks"][0]
    assert not mask.is_meta


def test_tied_parameters_stay_tied() -> None:
    block = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    block[1].weight = block[0].weight
    twin: Any = copy_block(block, "meta").module
    assert twin[0].weight is twin[1].weight
    assert sum(parameter.numel() for parameter in twin.parameters()) == 24


def test_a_result_of_a_computation_kept_on_a_module_can_be_copied() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        block = nn.utils.weight_norm(nn.Linear(4, 4))
    block(torch.zeros(2, 4))
    assert not block.weight.is_leaf
    twin: Any = copy_block(block, "cpu").module
    assert twin.weight.equal(block.weight)


def test_what_nothing_can_copy_is_shared() -> None:
    block = nn.Sequential(nn.Linear(4, 4))
    lock = threading.Lock()
    vars(block[0]).update(lock=lock)
    twin: Any = copy_block(block, "cpu").module
    assert twin[0].lock is lock
    assert twin[0].weight is not block[0].weight


def test_hooks_put_on_the_copy_are_not_on_the_block() -> None:
    class Counter:
        def __init__(self) -> None:
            self.lock = threading.Lock()

        def __call__(self, *_: object) -> None: ...

    block = nn.Linear(4, 4)
    block.register_forward_hook(Counter())
    twin = copy_block(block, "cpu").module
    twin.register_forward_hook(lambda *_: None)
    assert len(block._forward_hooks) == 1
    assert len(twin._forward_hooks) == 2


def test_a_block_that_refuses_to_be_copied_is_an_error_that_says_so() -> None:
    class Proud(nn.Module):
        def __deepcopy__(self, _: object) -> None:
            raise ValueError("there is only one of me")

    with pytest.raises(
        SpecError, match="cannot be copied, and it is never run itself: ValueError: there is only"
    ):
        copy_block(Proud(), "cpu")


def test_originals_are_found_by_the_modules_of_the_copy() -> None:
    block = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    copied = copy_block(block, "meta")
    twin: Any = copied.module
    assert copied.originals[id(twin[0])] is block[0]
    assert copied.originals[id(twin)] is block


def test_parameters_without_a_size_move_to_the_device_and_stay_without() -> None:
    lazy = nn.LazyLinear(3)
    twin = copy_block(lazy, "meta").module
    assert isinstance(twin.weight, nn.UninitializedParameter)
    assert twin.weight.data.is_meta
    assert twin(torch.empty(2, 5, device="meta")).shape == (2, 3)
    assert isinstance(lazy.weight, nn.UninitializedParameter)


def test_random_numbers_drawn_inside_do_not_change_those_drawn_after() -> None:
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    with untouched_rng():
        torch.rand(5)
    assert torch.rand(1).equal(expected)
