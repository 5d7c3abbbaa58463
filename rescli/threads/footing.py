"""The right answers: what each thread gets when it runs alone, and in which mode that can be compared."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch.nn.parameter import is_lazy

from rescli.threads.arrange import replicate
from rescli.threads.copies import IncomparableError, copy_module
from rescli.threads.outcome import Outcome, call, compare, describe_error
from rescli.threads.points import install_points
from rescli.threads.runner import Baton, ScheduledRun
from rescli.threads.schedule import LETTERS, Schedule, Turn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor, nn

    from rescli.threads.arrange import Arrangement

# Longer than any turn of a block that is worth checking; only used until the block's own speed is known.
_FIRST_PATIENCE_S = 60.0
_LEAST_PATIENCE_S = 0.5
# How much slower than alone a thread may be before it counts as blocked: the machine may be busy.
_SLOWER = 20


@dataclass(frozen=True, slots=True)
class Subject:
    """What is checked, and how threads meet in it.

    Args:
        module: The user's module; only copies of it run.
        arrange: What the threads call, given a copy: the copy itself, or replicas of it.
        inputs: The input of each thread.
        with_points: Whether hooks mark the entry and exit of every layer. Without them layers run as they do
            for the user, on PyTorch's fast paths.
        seed: Where each thread's random numbers start.
        patience_s: Seconds without progress after which a thread counts as blocked; None for what suits the
            block's speed.
    """

    module: nn.Module
    arrange: Arrangement
    inputs: tuple[tuple[Tensor, ...], ...]
    with_points: bool = True
    seed: int = 0
    patience_s: float | None = None


@dataclass(frozen=True, slots=True)
class Footing:
    """What runs of a subject are compared with.

    Args:
        subject: What is checked.
        base: A copy of its module in the mode that can be compared, made before any forward.
        references: What each thread gets alone on a copy of ``base``.
        points: How many points each thread passes.
        patience_s: Seconds without progress after which a thread counts as blocked.
        note: What the reader must know about the mode; may be empty.
    """

    subject: Subject
    base: nn.Module
    references: tuple[Outcome, ...]
    points: tuple[int, ...]
    patience_s: float
    note: str = ""

    def run(self, schedule: Schedule) -> ScheduledRun:
        """Run one schedule on a fresh copy.

        Args:
            schedule: Who runs when; all threads take part.
        """
        return _run(self.subject, self.base, schedule, range(schedule.threads), self.patience_s)


def _run(
    subject: Subject, base: nn.Module, schedule: Schedule, who: Sequence[int], patience_s: float
) -> ScheduledRun:
    """Run the threads ``who`` of a subject on a fresh copy; the schedule counts them from 0."""
    baton = Baton(schedule, patience_s=patience_s, seed=subject.seed)
    module = copy_module(base)
    if subject.with_points:
        install_points(module, baton.visit)
    modules = subject.arrange(module, len(subject.inputs))
    return baton.run([modules[index] for index in who], [subject.inputs[index] for index in who])


def settle_footing(subject: Subject) -> Footing:
    """Find the mode in which the block gives the same each time, and what each thread gets alone.

    The block's own mode is taken if a call can be repeated and does not depend on the calls before it; else
    eval mode if that holds there (dropout and spectral norm are such layers); else what can be had.

    Args:
        subject: What is checked.

    Raises:
        IncomparableError: The block cannot be copied, or never gives the same twice.
    """
    base = copy_module(subject.module)
    own = _try_mode(subject, base)
    if not own.reason or not any(layer.training for layer in base.modules()):
        return _best(own)
    still = _try_mode(subject, copy_module(subject.module).eval())
    if still.footing is not None and not still.reason:
        return replace(still.footing, note=f"in eval mode, since in its own mode {own.reason}")
    return _best(own, still)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """What became of one mode: a footing unless a call cannot be repeated, and why it is not the best."""

    footing: Footing | None
    reason: str


def _best(*attempts: _Attempt) -> Footing:
    for attempt in attempts:
        if attempt.footing is not None:
            return attempt.footing
    raise IncomparableError(f"nothing to compare with: {attempts[-1].reason}")


def _size_for_replicas(subject: Subject, base: nn.Module) -> None:
    """Settle lazy parameters, as nn.DataParallel wants them settled beforehand."""
    if subject.arrange is replicate and any(is_lazy(parameter) for parameter in base.parameters()):
        torch.manual_seed(subject.seed)
        call(base, subject.inputs[0])


def _try_mode(subject: Subject, base: nn.Module) -> _Attempt:
    _size_for_replicas(subject, base)
    started = time.monotonic()
    first = [_alone(subject, base, index) for index in range(len(subject.inputs))]
    patience_s = subject.patience_s or max(_LEAST_PATIENCE_S, _SLOWER * (time.monotonic() - started))
    references = tuple(run.outcomes[0] for run in first)
    failed = [outcome.error for outcome in references if outcome.error is not None]
    if failed:
        return _Attempt(None, f"a single thread raises {describe_error(failed[0])}")
    if not subject.with_points and _drew(subject):
        return _Attempt(None, "it draws random numbers, for which free threads share one generator")
    for index, outcome in enumerate(references):
        if _differs(_alone(subject, base, index), [outcome]):
            return _Attempt(None, "the same call gives other values each time")
    points = tuple(run.passed[0] for run in first)
    footing = Footing(subject, base, references, points, patience_s)
    count = len(subject.inputs)
    for order in (range(count), range(count - 1, -1, -1)):
        run = footing.run(Schedule(tuple(Turn(index) for index in order)))
        if _differs(run, references):
            return _Attempt(footing, "the result of one call depends on the calls before it")
    return _Attempt(footing, "")


def _alone(subject: Subject, base: nn.Module, index: int) -> ScheduledRun:
    run = _run(subject, base, Schedule((Turn(0),)), (index,), subject.patience_s or _FIRST_PATIENCE_S)
    if run.hung:
        raise IncomparableError("a single thread does not come to its end")
    return run


def _drew(subject: Subject) -> bool:
    """Tell whether the thread that ran last has moved the generator from where it started."""
    start = torch.Generator().manual_seed(subject.seed).get_state()
    return not torch.equal(torch.get_rng_state(), start)


def _differs(run: ScheduledRun, references: Sequence[Outcome]) -> bool:
    return any(
        compare(LETTERS[index], found, expected)
        for index, (found, expected) in enumerate(zip(run.outcomes, references, strict=True))
    )
