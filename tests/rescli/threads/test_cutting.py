"""Inputs cut for blocks that take long: which ones, how far, and that it is told."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor, nn

from rescli.threads.cutting import cut_block
from rescli.threads.outcome import call, compared_parameters
from rescli.threads.scenarios import check_block
from tests.rescli.threads.planted import LAYERS, PaperBlock, TwoLayers

FEW = replace(LAYERS, schedules=2)


@dataclass(frozen=True)
class SpecBlock(PaperBlock):
    """A block whose spec says what its inputs are."""

    origin: str = "spec"


def convolutions(width: int = 64, *, norm: bool = False) -> nn.Sequential:
    layers = [
        nn.Conv2d(3, width, 3, 2, 1),
        nn.Conv2d(width, width, 3, 2, 1),
        nn.Conv2d(width, width, 3, 2, 1),
    ]
    return nn.Sequential(*layers, *([nn.Conv2d(width, width, 2, 2), nn.BatchNorm2d(width)] if norm else []))


def shapes(module: nn.Module, *sizes: tuple[int, ...], origin: str = "spec") -> list[tuple[int, ...]]:
    block, note = cut_block(SpecBlock(module, tuple(torch.zeros(size) for size in sizes), origin=origin))
    found = [tuple(value.shape) for value in block.inputs]
    assert (found == list(sizes)) == (note == "")
    return found


def test_what_takes_long_is_halved_until_it_does_not() -> None:
    # At 512x512 the three convolutions take 2 x 64 x 27 x 256^2 + 2 x 64 x 576 x (128^2 + 64^2) = 1,736,441,856.
    assert shapes(convolutions(), (1, 3, 512, 512)) == [(1, 3, 128, 128)]  # a sixteenth
    assert shapes(convolutions(), (1, 3, 128, 128)) == [(1, 3, 128, 128)]


def test_the_smallest_that_the_block_takes_is_taken_where_none_is_cheap_enough() -> None:
    # In train mode a norm wants more than one value of each channel: at 16x16 there is one.
    assert shapes(convolutions(512, norm=True), (1, 3, 64, 64)) == [(1, 3, 32, 32)]


def test_only_lengths_are_cut() -> None:
    wide = nn.Sequential(nn.Linear(512, 4096), nn.ReLU(), nn.Linear(4096, 512))
    # Tokens, but neither features nor the batch.
    assert shapes(wide, (1, 1024, 512)) == [(1, 16, 512)]
    assert shapes(wide, (1024, 512)) == [(1024, 512)]


def test_inputs_that_share_a_length_are_cut_together() -> None:
    class Attends(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.MultiheadAttention(256, 4, batch_first=True)

        def forward(self, x: Tensor, y: Tensor, gain: Tensor) -> Tensor:
            out: Tensor = self.inner(x, y, y)[0]
            return out * gain

    # Of 512 tokens the projections take 2 x 4 x 512 x 256^2 and the attention 2 x 2 x 512^2 x 256, 537 million.
    assert shapes(Attends(), (1, 512, 256), (1, 512, 256), (1, 1, 256)) == [
        *((1, 256, 256), (1, 256, 256)),
        (1, 1, 256),
    ]


@pytest.mark.parametrize("origin", ["option", "spec", "inferred"])
def test_an_input_that_was_asked_for_is_not_cut(origin: str) -> None:
    size = (1, 3, 512, 512)
    assert (shapes(convolutions(), size, origin=origin) == [size]) == (origin == "option")


def test_a_lock_that_a_refused_input_leaves_taken_stops_nobody() -> None:
    class Refuses(TwoLayers):
        def __init__(self) -> None:
            super().__init__()
            self.lock = threading.Lock()

        def forward(self, x: Tensor) -> Tensor:
            self.lock.acquire()
            if x.shape[1] < 64:
                raise ValueError(x.shape)
            self.lock.release()
            return x

    assert shapes(Refuses(), (2, 64)) == [(2, 64)]


def test_a_cut_input_is_told_of_and_each_thread_gets_one() -> None:
    seen = set()

    class Spies(nn.Identity):
        def forward(self, x: Tensor) -> Tensor:
            seen.add(tuple(x.shape))
            return x

    block = SpecBlock(nn.Sequential(Spies(), *convolutions()), (torch.zeros(1, 3, 512, 512),))
    results = list(check_block(block, ("state", "shared", "lazy"), FEW))
    told = (
        "; on an input (1, 3, 128, 128) instead of (1, 3, 512, 512), which leaves time for more schedules "
        "(--input keeps a size)"
    )
    assert [told in result.detail for result in results] == [True, True, False]
    assert {(1, 3, 128, 128), (2, 3, 128, 128)} <= seen
    assert (1, 3, 512, 512) not in seen


def test_gradients_of_the_largest_weights_are_left_out_of_a_large_network_and_that_is_told() -> None:
    module = nn.Sequential(nn.Linear(1024, 2048), nn.Linear(2048, 1024), nn.Linear(1024, 4))
    names, every = compared_parameters(module)
    assert ([name for name, _ in names], every) == (["0.weight", "0.bias", "1.bias", "2.weight", "2.bias"], 6)
    found = call(module, [torch.zeros(1, 1024)])
    assert "gradient of 0.weight" in found.values
    assert "gradient of 1.weight" not in found.values
    block = PaperBlock(module, (torch.zeros(1, 1024),))
    results = list(check_block(block, ("state", "shared"), FEW))
    told = "; gradients compared by the inputs and by 5 of 6 parameters, not by the largest"
    assert [result.detail.endswith(told) for result in results] == [False, True]


def test_of_other_networks_all_gradients_are_compared() -> None:
    names, every = compared_parameters(TwoLayers())
    assert (len(names), every) == (4, 4)
    (found,) = check_block(PaperBlock(TwoLayersForward()), ("shared",), FEW)
    assert "gradients compared" not in found.detail


class TwoLayersForward(TwoLayers):
    """What both layers give, one after the other."""

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.second(self.first(x))
        return out
