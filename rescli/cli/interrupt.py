"""Ctrl-C, also where the code that it hits makes something else of it."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType


@contextlib.contextmanager
def watched_interrupts() -> Iterator[Callable[[], bool]]:
    """Remember whether Ctrl-C was pressed.

    An import that is written in C may swallow the KeyboardInterrupt and fail later for another reason:
    ``import torch`` hit in the middle raises an ImportError of numpy's.

    Yields:
        A function that says whether it was pressed since.
    """
    pressed = threading.Event()
    ours_to_watch = (
        threading.current_thread() is threading.main_thread()
        # Where the shell told us to ignore it, as behind nohup, it stays ignored.
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if not ours_to_watch:
        yield pressed.is_set
        return

    def note(number: int, frame: FrameType | None) -> None:
        pressed.set()
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
