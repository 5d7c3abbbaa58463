"""Ctrl-C and who else may want it."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

import pytest

from rescli.cli.interrupt import watched_interrupts

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def ignored() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_is_remembered_and_still_raises() -> None:
    with watched_interrupts() as interrupted:
        assert not interrupted()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert interrupted()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("ignored")
def test_a_process_that_ignores_ctrl_c_goes_on_ignoring_it() -> None:
    with watched_interrupts() as interrupted:
        signal.raise_signal(signal.SIGINT)
        assert not interrupted()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_another_thread_than_the_first_watches_nothing() -> None:
    seen: list[object] = []

    def look() -> None:
        with watched_interrupts():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]
