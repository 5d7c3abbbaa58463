from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from rescli.threads.state import changed_names, take_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable


class Store:
    """An object that is no module and no container."""

    def __init__(self) -> None:
        self.last = 0


class Subject(nn.Module):
    """Holds one of everything."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.register_buffer("mean", torch.zeros(2))
        self.tensor = torch.zeros(2)
        self.number: Any = 1
        self.nothing = None
        self.nan = float("nan")
        self.list = [1]
        self.dict: dict[str, Any] = {"inner": {}}
        self.deque = deque([1], maxlen=3)
        self.set = {1}
        self.store = Store()
        self.lock = threading.Lock()
        self.local = threading.local()


def change(subject: Subject, what: str) -> None:
    exec(what, {"s": subject, "torch": torch, "nn": nn})  # noqa: S102 - the table below is the input


@pytest.mark.parametrize(
    ("what", "names"),
    [
        ("s.number = 2", ("number",)),
        ("s.number = 1", ()),
        ("s.number = True", ("number",)),
        ("s.fresh = 1", ("fresh",)),
        ("del s.number", ("number",)),
        ("s.nan = float('nan')", ()),
        ("s.list.append(2)", ("list",)),
        ("s.list = [1]", ("list",)),
        ("s.dict['inner']['deep'] = 1", ("dict",)),
        ("s.deque.append(1)", ("deque",)),
        ("s.set.add(2)", ("set",)),
        ("s.store.last = 1", ("store",)),
        ("s.local.mine = 1", ()),
        ("s.lock.acquire()", ()),
        ("s.tensor.add_(1)", ("tensor",)),
        ("s.tensor.data.add_(1)", ("tensor",)),
        ("s.tensor = torch.zeros(2)", ("tensor",)),
        ("s.tensor.add_(0)", ()),
        ("s.mean.data[0] = 1", ("mean",)),
        ("s.layer.weight.data.mul_(2)", ("layer.weight",)),
        ("s.layer.eval()", ("layer.training",)),
        ("s.layer.kept = 1", ("layer.kept",)),
        ("s.extra = nn.Linear(1, 1)", ("extra",)),
        ("s.layer = nn.Linear(2, 2)", ("layer",)),
        ("del s.layer", ("layer",)),
        ("s.layer.__class__ = nn.Identity", ("layer.__class__",)),
        ("s.layer.register_forward_hook(print)", ("layer._forward_hooks",)),
        ("s(None) if False else None", ()),
    ],
)
def test_what_changes_is_named(what: str, names: tuple[str, ...]) -> None:
    subject = Subject()
    before = take_snapshot(subject)
    change(subject, what)
    changed = changed_names(before, take_snapshot(subject))
    # A hook is also entered in the tables of its options.
    assert tuple(name for name in changed if "_forward_hooks_" not in name) == names


def test_two_snapshots_of_an_untouched_module_are_equal() -> None:
    module = nn.Sequential(nn.LSTM(2, 2), nn.BatchNorm1d(2), nn.LazyLinear(2), nn.Linear(2, 2, device="meta"))
    assert changed_names(take_snapshot(module), take_snapshot(module)) == ()


@pytest.mark.parametrize(
    ("make", "changed"),
    [
        (lambda: nn.BatchNorm1d(2), ("num_batches_tracked", "running_mean", "running_var")),
        (lambda: nn.BatchNorm1d(2).eval(), ()),
        (nn.Dropout, ()),
    ],
)
def test_buffers_are_compared_by_their_bits(make: Callable[[], nn.Module], changed: tuple[str, ...]) -> None:
    module = make()
    before = take_snapshot(module)
    module(torch.randn(3, 2))
    assert changed_names(before, take_snapshot(module)) == changed


def test_a_list_that_contains_itself_is_no_trouble() -> None:
    subject = Subject()
    subject.list.append(subject.list)  # type: ignore[arg-type] # on purpose
    before = take_snapshot(subject)
    subject.dict["inner"] = 0
    assert changed_names(before, take_snapshot(subject)) == ("dict",)
