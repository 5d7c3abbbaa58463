"""Locks that tell when a thread has to wait for them, so that nobody waits to find that out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager


class Lock(Protocol):
    """What ``threading.Lock()`` and ``threading.RLock()`` give."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock, or wait for it."""

    def release(self) -> None:
        """Give it back."""


class WatchedLock:
    """Stands for a lock on a module under a schedule.

    Only one thread runs at a time there, so a lock that is taken stays taken until the schedule has been
    given up. Everything but ``acquire`` is the lock's own.

    Args:
        lock: The lock.
        waiting: What a thread is in while it waits for the lock.
    """

    def __init__(self, lock: Lock, waiting: Callable[[], AbstractContextManager[None]]) -> None:
        self._lock = lock
        self._waiting = waiting

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock; tell it if that means to wait."""
        if self._lock.acquire(blocking=False):
            return True
        if not blocking:
            return False
        with self._waiting():
            return self._lock.acquire(blocking, timeout)

    def release(self) -> None:
        """Give the lock back."""
        self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def __getattr__(self, name: str) -> object:
        return getattr(self._lock, name)

    def __reduce__(self) -> NoReturn:
        # A module that leaves its locks out of its copies must not be said to do without.
        raise TypeError(f"cannot pickle '{type(self._lock).__module__}.{type(self._lock).__name__}' object")
