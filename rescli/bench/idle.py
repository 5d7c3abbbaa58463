"""What the other processes of a group do while one of them measures alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rescli.bench.result import PassName


class Idle:
    """Calls that do nothing and take no time.

    Args:
        passes: The passes of the exercise that another process runs meanwhile.
    """

    period = 1

    def __init__(self, passes: Sequence[PassName]) -> None:
        self.parts: Mapping[PassName, tuple[int, ...]] = dict.fromkeys(passes, ())

    def run(self, iterations: int, mark: Callable[[], None]) -> None:
        """Do nothing, between two marks."""
        del iterations
        mark()
        mark()
