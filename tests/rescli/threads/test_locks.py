from __future__ import annotations

import contextlib
import copy
import pickle
import threading
from typing import TYPE_CHECKING

import pytest

from rescli.threads.locks import WatchedLock

if TYPE_CHECKING:
    from collections.abc import Iterator


class Watch:
    """Counts how often somebody waits, and lets the lock go while they do."""

    def __init__(self, lock: threading.Lock) -> None:
        self.lock = lock
        self.waits = 0

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        self.waits += 1
        self.lock.release()
        yield


def test_a_free_lock_is_taken_and_given_back_without_waiting() -> None:
    lock = threading.Lock()
    watch = Watch(lock)
    watched = WatchedLock(lock, watch.waiting)
    with watched:
        assert lock.locked()
        assert watched.locked()  # type: ignore[operator] # the lock's own
        assert watched.acquire(blocking=False) is False
    assert not lock.locked()
    assert watch.waits == 0


def test_waiting_is_told_before_it_begins() -> None:
    lock = threading.Lock()
    watch = Watch(lock)
    lock.acquire()
    assert WatchedLock(lock, watch.waiting).acquire(timeout=5)
    assert watch.waits == 1


def test_a_reentrant_lock_stays_reentrant() -> None:
    watched = WatchedLock(threading.RLock(), contextlib.nullcontext)
    with watched, watched:
        assert watched.acquire(blocking=False)


@pytest.mark.parametrize("way", [copy.deepcopy, pickle.dumps])
def test_it_refuses_to_be_copied_as_the_lock_itself_does(way: object) -> None:
    watched = WatchedLock(threading.Lock(), contextlib.nullcontext)
    with pytest.raises(TypeError, match=r"cannot pickle '_thread\.lock' object"):
        way(watched)  # type: ignore[operator] # a function
