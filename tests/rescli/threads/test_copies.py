from __future__ import annotations

import threading

import pytest
import torch
from torch import nn

from rescli.threads.copies import IncomparableError, copy_module, refuse_compiled
from tests.rescli.threads.planted import Locks, Uncopyable


def test_a_copy_shares_nothing_with_its_original() -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    copied = copy_module(module)
    for one, other in zip(module.state_dict().values(), copied.state_dict().values(), strict=True):
        assert torch.equal(one, other)
        assert one.data_ptr() != other.data_ptr()


def test_locks_are_replaced_by_fresh_ones() -> None:
    module = Locks()
    with module.lock:
        copied = copy_module(module)
        assert copied.lock is not module.lock
        assert not copied.lock.locked()


def test_a_reentrant_lock_is_replaced_by_a_reentrant_one() -> None:
    class Reenters(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lock = threading.RLock()

    module = Reenters()
    copied = copy_module(module)
    assert copied.lock is not module.lock
    assert type(copied.lock) is type(module.lock)


def test_a_lock_that_two_layers_share_stays_shared() -> None:
    one, other = Locks(), Locks()
    other.lock = one.lock
    first, second = copy_module(nn.ModuleList([one, other]))
    assert isinstance(first, Locks)
    assert isinstance(second, Locks)
    assert first.lock is second.lock
    assert first.lock is not one.lock


def test_a_module_that_refuses_says_why() -> None:
    with pytest.raises(IncomparableError) as caught:
        copy_module(Uncopyable())
    assert str(caught.value).startswith(
        "the module cannot be copied: TypeError: cannot pickle 'generator' object"
    )


def test_a_module_that_kept_an_activation_cannot_be_copied() -> None:
    module = nn.Linear(2, 2)
    module.kept = module(torch.ones(1, 2))
    with pytest.raises(IncomparableError, match="Only Tensors created explicitly by the user"):
        copy_module(module)


def test_what_is_not_compiled_is_not_refused() -> None:
    refuse_compiled(nn.Sequential(nn.Linear(2, 2)))
