"""The right answers: what each thread gets when it runs alone, and in which mode that can be compared."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import torch
from torch.nn.parameter import is_lazy

from rescli.threads.arrange import replicate
from rescli.threads.copies import IncomparableError, NeverEndsError, copy_module
from rescli.threads.job import Job
from rescli.threads.locks import WatchedLock
from rescli.threads.outcome import Outcome, call, compare, describe_error
from rescli.threads.points import install_points
from rescli.threads.result import ALSO_ALONE, Wrong
from rescli.threads.runner import Baton, ScheduledRun
from rescli.threads.schedule import LETTERS, Schedule, Turn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor, nn

    from rescli.threads.arrange import Arrangement
    from rescli.threads.result import Point

# Longer than any turn of a block that is worth checking; only used until the block's own speed is known.
_FIRST_PATIENCE_S = 60.0
_LEAST_PATIENCE_S = 0.5
_NO_TIME = "the time was up before the right answers were known (--max-time)"
# How much slower than alone a thread may be before it counts as blocked: the machine may be busy.
_SLOWER = 20


@dataclass(frozen=True, slots=True)
class Subject:
    """What is checked, and how threads meet in it.

    Args:
        module: The user's module; only copies of it run.
        arrange: What the threads call, given a copy: the copy itself, replicas of it, or jobs on it.
        inputs: The input of each thread.
        points: Where threads can hand over: ``layers`` marks the entry and exit of every layer with hooks;
            ``lines`` are those of ``line_files``, and with ``none`` there are no points. Without hooks
            layers run as they do for the user, on PyTorch's fast paths.
        line_files: The files whose lines are points.
        seed: Where each thread's random numbers start.
        patience_s: Seconds without progress after which a thread counts as blocked; None for what suits the
            block's speed.
        out_of_time: Asked before each run that only serves to know the right answers.
    """

    module: nn.Module
    arrange: Arrangement
    inputs: tuple[tuple[Tensor, ...], ...]
    points: Literal["none", "layers", "lines"] = "layers"
    line_files: frozenset[str] = frozenset()
    seed: int = 0
    patience_s: float | None = None
    out_of_time: Callable[[], bool] = lambda: False


@dataclass(frozen=True, slots=True)
class Footing:
    """What runs of a subject are compared with.

    Args:
        subject: What is checked.
        base: A copy of its module in the mode that can be compared, made before any forward.
        references: What each thread gets alone on a copy of ``base``.
        steps: The points that each thread passes alone.
        patience_s: Seconds without progress after which a thread counts as blocked.
        note: What the reader must know about the mode; may be empty.
        right: Schedules that have been run and gave each thread what it gets alone.
    """

    subject: Subject
    base: nn.Module
    references: tuple[Outcome, ...]
    steps: tuple[tuple[Point, ...], ...]
    patience_s: float
    note: str = ""
    right: frozenset[Schedule] = frozenset()

    @property
    def points(self) -> tuple[int, ...]:
        """How many points each thread passes alone."""
        return tuple(map(len, self.steps))

    @property
    def raising(self) -> tuple[Wrong, ...]:
        """What threads raise even alone, where that is not all of them."""
        return tuple(
            Wrong(LETTERS[index], "exception", describe_error(outcome.error), ALSO_ALONE)
            for index, outcome in enumerate(self.references)
            if outcome.error is not None
        )

    def run(self, schedule: Schedule) -> ScheduledRun:
        """Run one schedule on a fresh copy.

        Args:
            schedule: Who runs when; all threads take part.
        """
        return _run(self.subject, self.base, schedule, range(schedule.threads), self.patience_s)

    def at_lines(self, files: frozenset[str]) -> Footing | None:
        """Put the points between the lines of files, and look again what each thread gets alone.

        Args:
            files: Their names.

        Returns:
            None where no line of these files runs, or where the block gives other values without hooks
            each time.
        """
        subject = replace(self.subject, points="lines", line_files=files)
        runs = [run_alone(subject, self.base, index) for index in range(len(subject.inputs))]
        again = [run_alone(subject, self.base, index) for index in range(len(subject.inputs))]
        steps = tuple(points_of(run) for run in again)
        if not any(point.event == "line" for own in steps for point in own):
            return None
        references = tuple(run.outcomes[0] for run in runs)
        if any(_differs(run, [outcome]) for run, outcome in zip(again, references, strict=True)):
            return None
        return replace(self, subject=subject, references=references, steps=steps, right=frozenset())


def points_of(run: ScheduledRun) -> tuple[Point, ...]:
    """Give the points that were passed, in order.

    Args:
        run: What came of a run, of one thread.
    """
    return tuple(step.point for step in run.steps if step.point is not None)


def _run(
    subject: Subject, base: nn.Module, schedule: Schedule, who: Sequence[int], patience_s: float
) -> ScheduledRun:
    """Run the threads ``who`` of a subject on a fresh copy; the schedule counts them from 0."""
    baton = Baton(schedule, patience_s=patience_s, seed=subject.seed, line_files=subject.line_files)
    module = copy_module(base, lambda lock: WatchedLock(lock, baton.waiting_for_lock))
    if subject.points == "layers":
        install_points(module, baton.visit)
    callees = subject.arrange(module, len(subject.inputs))
    run = baton.run([callees[index] for index in who], [subject.inputs[index] for index in who])
    finished = (
        callee.finish(outcome) if isinstance(callee, Job) else outcome
        for callee, outcome in zip((callees[index] for index in who), run.outcomes, strict=False)
    )
    return replace(run, outcomes=tuple(finished))


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


def resettle(known: Footing, subject: Subject, *, kept: int = 0) -> Footing:
    """Look what each thread gets alone with other jobs, in a mode that another footing has found.

    Args:
        known: A footing of the same module.
        subject: What is checked now.
        kept: So many threads do what they do in the other footing.

    Raises:
        IncomparableError: Every thread raises, or the time is up.
    """
    runs = []
    for index in range(kept, len(subject.inputs)):
        runs.append(run_alone(subject, known.base, index, known.patience_s))
        if subject.points == "none" and _drew(subject):
            return settle_footing(subject)
    references = (*known.references[:kept], *(run.outcomes[0] for run in runs))
    errors = [outcome.error for outcome in references if outcome.error is not None]
    if len(errors) == len(references):
        raise IncomparableError(
            f"nothing to compare with: a single thread raises {describe_error(errors[0])}"
        )
    steps = (*known.steps[:kept], *map(points_of, runs))
    return replace(known, subject=subject, references=references, steps=steps, right=frozenset())


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


def size_for_replicas(base: nn.Module, inputs: Sequence[Tensor], seed: int = 0) -> None:
    """Settle lazy parameters, as nn.DataParallel wants them settled beforehand.

    Args:
        base: The module that replicas are to be made of.
        inputs: What its first call is made with.
        seed: Decides the values of the parameters.
    """
    if any(is_lazy(parameter) for parameter in base.parameters()):
        torch.manual_seed(seed)
        call(base, inputs)


def _try_mode(subject: Subject, base: nn.Module) -> _Attempt:
    if subject.arrange is replicate:
        size_for_replicas(base, subject.inputs[0], subject.seed)
    started = time.monotonic()
    first = []
    for index in range(len(subject.inputs)):
        first.append(run_alone(subject, base, index))
        if subject.points == "none" and _drew(subject):
            return _Attempt(None, "it draws random numbers, for which free threads share one generator")
    patience_s = subject.patience_s or max(_LEAST_PATIENCE_S, _SLOWER * (time.monotonic() - started))
    references = tuple(run.outcomes[0] for run in first)
    failed = [outcome.error for outcome in references if outcome.error is not None]
    if len(failed) == len(references):
        return _Attempt(None, f"a single thread raises {describe_error(failed[0])}")
    footing = Footing(subject, base, references, tuple(map(points_of, first)), patience_s)
    count = len(subject.inputs)
    serial = []
    for order in (range(count), range(count - 1, -1, -1)):
        if subject.out_of_time():
            raise IncomparableError(_NO_TIME)
        serial.append(Schedule(tuple(Turn(index) for index in order)))
        run = footing.run(serial[-1])
        if _differs(replace(run, outcomes=run.outcomes[order[0] :][:1]), references[order[0] :][:1]):
            # Nobody has called this copy before.
            return _Attempt(None, "the same call gives other values each time")
        if _differs(run, references):
            return _Attempt(footing, "the result of one call depends on the calls before it")
    return _Attempt(replace(footing, right=frozenset(serial)), "")


def run_alone(
    subject: Subject, base: nn.Module, index: int, patience_s: float = _FIRST_PATIENCE_S
) -> ScheduledRun:
    """Let one thread do its work while no other one is there.

    Args:
        subject: What it does.
        base: What it does it on a copy of.
        index: Which thread.
        patience_s: Seconds without progress after which it does not come to its end.

    Raises:
        IncomparableError: The time is up, or the thread does not come to its end.
    """
    if subject.out_of_time():
        raise IncomparableError(_NO_TIME)
    run = _run(subject, base, Schedule((Turn(0),)), (index,), subject.patience_s or patience_s)
    if run.hung:
        raise NeverEndsError("a single thread does not come to its end")
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
