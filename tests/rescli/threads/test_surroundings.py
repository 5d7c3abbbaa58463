from __future__ import annotations

import random
import sys
import threading

import pytest
import torch

from rescli.threads.surroundings import as_in_caller, eager_switching, quiet_process


def test_generators_and_threads_are_put_back_also_after_an_exception() -> None:
    threads, state, python_state = torch.get_num_threads(), torch.get_rng_state(), random.getstate()

    def stop() -> None:
        with quiet_process():
            assert torch.get_num_threads() == 1
            torch.rand(3)
            random.random()
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        stop()
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)
    assert random.getstate() == python_state


def test_the_switch_interval_is_put_back() -> None:
    before = sys.getswitchinterval()
    with eager_switching(1e-5):
        assert sys.getswitchinterval() == pytest.approx(1e-5)
    assert sys.getswitchinterval() == before


@pytest.mark.parametrize("grads", [True, False])
def test_a_thread_takes_over_what_is_kept_for_each_thread_apart(grads: bool) -> None:
    seen: list[tuple[int, bool]] = []

    def work() -> None:
        with as_in_caller(grads=grads):
            seen.append((torch.get_num_threads(), torch.is_grad_enabled()))

    with quiet_process():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert seen == [(1, grads)]
