"""Time on paper for whole command lines: each layer's call takes a millisecond, and each backward pass two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn.modules.module import register_module_forward_hook

from tests.rescli.bench.paper import PaperClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest
    from torch import nn

LAYER_S, BACKWARD_S = 1e-3, 2e-3


def paper_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[PaperClock]:
    """Let ``rescli bench`` run by a clock that only layers without layers of their own and backward passes move."""
    clock = PaperClock()
    backward = torch.autograd.backward

    def tick(layer: nn.Module, *_: object) -> None:
        if not any(True for _ in layer.children()):
            clock.seconds += LAYER_S

    def slow_backward(*arguments: Any, **named: Any) -> None:  # noqa: ANN401 - torch's own
        backward(*arguments, **named)
        clock.seconds += BACKWARD_S

    monkeypatch.setattr("rescli.bench.session.clock_for", lambda _devices: clock)
    monkeypatch.setattr("rescli.bench.session.matmul_rate", lambda *_: 1e12)
    monkeypatch.setattr(torch.autograd, "backward", slow_backward)
    hook = register_module_forward_hook(tick)
    yield clock
    hook.remove()
