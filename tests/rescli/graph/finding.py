"""What is found in a block, in the short forms that tests compare; and cases, each a fault beside its right twin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from rescli.graph.trace import trace

if TYPE_CHECKING:
    from collections.abc import Callable

    from rescli.graph.model import Diagnostic, Shape

Found = list[tuple[str, str, str]]


@dataclass(frozen=True)
class Case:
    """A block with a fault, and one beside it that is right.

    Args:
        faulty: Makes the block with the fault.
        twin: Makes the other.
        found: Code, severity and place of all that is found in the first; in the twin none of these codes is.
        shape: What both are run on.
        backward: Whether a backward pass is run as well.
    """

    faulty: Callable[[], nn.Module]
    twin: Callable[[], nn.Module]
    found: Found
    shape: Shape = (2, 4)
    backward: bool = False

    def check(self) -> None:
        """Assert that the fault is found, and that the twin stays silent."""
        assert found(self.faulty(), self.shape, backward=self.backward) == self.found
        codes = {code for code, _, _ in self.found}
        others = found(self.twin(), self.shape, backward=self.backward)
        assert [each for each in others if each[0] in codes] == []


def diagnostics_of(
    block: nn.Module, shape: Shape = (2, 4), *, backward: bool = False
) -> tuple[Diagnostic, ...]:
    inputs = (torch.zeros(shape),)
    graph = trace(block, inputs, name="block", target="a.py:block", origin="spec", backward=backward)
    return graph.diagnostics


def found(block: nn.Module, shape: Shape = (2, 4), *, backward: bool = False) -> Found:
    """Give code, severity and place of each."""
    return [(each.code, each.severity, each.path) for each in diagnostics_of(block, shape, backward=backward)]


def messages(block: nn.Module, shape: Shape = (2, 4), *, backward: bool = False) -> list[tuple[str, str]]:
    """Give message and hint of each."""
    return [(each.message, each.hint) for each in diagnostics_of(block, shape, backward=backward)]


def linear() -> nn.Module:
    return nn.Linear(4, 4)


class Scale(nn.Module):
    """A layer of the user's own: nobody can tell its sizes.

    Args:
        width: To how many features it pads or cuts; None leaves them.
    """

    def __init__(self, width: int | None = None) -> None:
        super().__init__()
        self.width = width
        self.weight = nn.Parameter(torch.full((100,), 1.5))

    def forward(self, x: Tensor) -> Tensor:
        change = 0 if self.width is None else self.width - x.shape[-1]
        return nn.functional.pad(x, (0, change)) * self.weight[:1]
