"""What the tests of torchresidual share."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def _same_numbers_in_every_order() -> None:
    """Seed torch before each test: pytest-randomly seeds Python and numpy, not torch."""
    torch.manual_seed(0)
