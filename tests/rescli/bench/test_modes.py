from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from rescli.bench.modes import Modes, dress, put_channels_last, takes_channels_last

if TYPE_CHECKING:
    import pytest

CPU = [torch.device("cpu")]


class Look(nn.Module):
    """Notes what it is called with."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.seen: list[tuple[torch.dtype, bool]] = []

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv(x)
        self.seen.append((out.dtype, x.is_contiguous(memory_format=torch.channels_last)))
        return out


def called(modes: Modes) -> Look:
    look = Look()
    module, inputs = dress(look, [torch.randn(2, 3, 8, 8)], modes, CPU)
    module(*inputs)
    return look


def test_nothing_is_done_unless_it_is_asked_for() -> None:
    look = Look()
    module, _ = dress(look, [torch.zeros(1)], Modes(), CPU)
    assert module is look
    assert called(Modes()).seen == [(torch.float32, False)]


def test_autocast_computes_in_the_type_that_pytorch_chooses() -> None:
    modes = Modes(amp=True)
    assert modes.autocast_dtype(CPU[0]) == torch.get_autocast_dtype("cpu") == torch.bfloat16
    assert called(modes).seen == [(torch.bfloat16, False)]
    assert Modes().autocast_dtype(CPU[0]) is None
    assert not torch.is_autocast_enabled("cpu")


def test_channels_last_holds_for_weights_and_images() -> None:
    look = called(Modes(channels_last=True))
    assert look.seen == [(torch.float32, True)]
    assert look.conv.weight.is_contiguous(memory_format=torch.channels_last)


def test_volumes_have_a_layout_of_their_own_and_the_rest_is_left_alone() -> None:
    layer = nn.Conv3d(3, 4, 3)
    volume, vector = put_channels_last(layer, [torch.zeros(2, 3, 4, 4, 4), torch.zeros(2, 3)])
    assert volume.is_contiguous(memory_format=torch.channels_last_3d)
    assert layer.weight.is_contiguous(memory_format=torch.channels_last_3d)
    assert vector.is_contiguous()
    assert takes_channels_last([volume])
    assert not takes_channels_last([vector])


def test_a_compiled_block_computes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.compiler.reset()
    # The eager backend traces as the usual one does, and needs no C++ compiler.
    real = torch.compile
    monkeypatch.setattr(torch, "compile", lambda module: real(module, backend="eager"))
    layer = nn.Linear(4, 4)
    x = torch.randn(2, 4)
    module, inputs = dress(layer, [x], Modes(compiled=True, amp=True), CPU)
    assert module is not layer
    torch.testing.assert_close(module(*inputs), layer(x).bfloat16(), atol=0.05, rtol=0.05)
