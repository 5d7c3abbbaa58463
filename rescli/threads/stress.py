"""Free-running threads on one module: finds some races by luck and proves nothing."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from rescli.threads.copies import copy_module
from rescli.threads.outcome import Outcome, call, compare
from rescli.threads.schedule import LETTERS
from rescli.threads.surroundings import as_in_caller, eager_switching

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn

    from rescli.threads.footing import Footing
    from rescli.threads.result import Wrong

# How much longer than a thread under a schedule a free one may take for a call: it shares the processor.
_PATIENCE = 10


@dataclass(frozen=True, slots=True)
class StressRun:
    """What came of letting threads run freely.

    Args:
        calls: How many calls were compared, of all threads together.
        wrong: How many gave a wrong value or raised.
        first: The wrong values of the first wrong call of the first thread that had one; may be empty.
        in_time: Whether every thread made all its calls before the time was up.
        hung: Whether a thread did not end.
    """

    calls: int
    wrong: int
    first: tuple[Wrong, ...]
    in_time: bool
    hung: bool


@dataclass(slots=True)
class _Caller:
    """One thread's tally."""

    calls: int = 0
    wrong: int = 0
    first: tuple[Wrong, ...] = ()
    in_time: bool = True
    done: threading.Event = field(default_factory=threading.Event)


def run_stress(footing: Footing, iterations: int, out_of_time: Callable[[], bool]) -> StressRun:
    """Let all threads of a footing start together and call one shared copy again and again.

    Args:
        footing: The module, without points on it, and the right answers.
        iterations: Calls of each thread.
        out_of_time: Asked before each call of a thread but its first.
    """
    modules = footing.subject.arrange(copy_module(footing.base), len(footing.references))
    callers = [_Caller() for _ in modules]
    barrier = threading.Barrier(len(modules))
    stopped = threading.Event()
    grads = torch.is_grad_enabled()

    def work(index: int, caller: _Caller, module: nn.Module) -> None:
        with as_in_caller(grads=grads):
            barrier.wait()
            for iteration in range(iterations):
                if stopped.is_set():
                    break
                # Each thread makes one call, whatever the time.
                if iteration and out_of_time():
                    caller.in_time = False
                    break
                _one_call(footing, index, caller, module)
        caller.done.set()

    with eager_switching():
        for index, (caller, module) in enumerate(zip(callers, modules, strict=True)):
            threading.Thread(target=work, args=(index, caller, module), daemon=True).start()
        try:
            hung = not all(_ends(caller, _PATIENCE * footing.patience_s) for caller in callers)
        finally:
            # After Ctrl-C nobody goes on.
            stopped.set()
    return StressRun(
        calls=sum(caller.calls for caller in callers),
        wrong=sum(caller.wrong for caller in callers),
        first=next((caller.first for caller in callers if caller.first), ()),
        in_time=all(caller.in_time for caller in callers),
        hung=hung,
    )


def _one_call(footing: Footing, index: int, caller: _Caller, module: nn.Module) -> None:
    try:
        found = call(module, footing.subject.inputs[index])
    except BaseException as error:  # noqa: BLE001 - whatever the module raises is a result
        found = Outcome({}, error)
    caller.calls += 1
    wrong = compare(LETTERS[index], found, footing.references[index])
    caller.wrong += bool(wrong)
    caller.first = caller.first or wrong


def _ends(caller: _Caller, patience_s: float) -> bool:
    """Wait for a thread as long as it makes calls."""
    calls = -1
    while not caller.done.wait(patience_s):
        if caller.calls == calls:
            return False
        calls = caller.calls
    return True
