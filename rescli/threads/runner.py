"""Runs threads one at a time, in the order that a schedule says.

Each thread waits for its turn, works until the point where its turn ends, and wakes the next one. Nothing
else is added: between two points a thread runs as it would alone, so what another thread left behind on a
shared object is exactly what it finds.
"""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from rescli.threads.job import Job, perform
from rescli.threads.lines import LineTracer
from rescli.threads.outcome import Outcome
from rescli.threads.result import Point, Step
from rescli.threads.schedule import LETTERS
from rescli.threads.surroundings import as_in_caller

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor, nn

    from rescli.threads.schedule import Schedule

# Threads that may all run are given so much longer before they are left behind.
_LAST_PATIENCE = 10
# All are known to wait for locks: one would be let go within this time if its lock were free.
_DEADLOCK_S = 0.1


@dataclass(frozen=True, slots=True)
class Blocked:
    """A turn that could not be taken: the thread did not move on, as if another one held its lock.

    Args:
        turn: The index of the turn in the schedule.
        passed: How many points the thread had passed by then.
    """

    turn: int
    passed: int


@dataclass(frozen=True, slots=True)
class ScheduledRun:
    """What came of running one schedule.

    Args:
        outcomes: What each thread got; empty if a thread never ended.
        steps: The points passed, in order, by all threads.
        passed: How many points each thread passed.
        blocked: The turn that could not be taken, or None. From there on the threads ran freely.
        hung: Whether a thread did not even end when all ran freely; it is left behind, waiting.
    """

    outcomes: tuple[Outcome, ...]
    steps: tuple[Step, ...]
    passed: tuple[int, ...]
    blocked: Blocked | None = None
    hung: bool = False


@dataclass(slots=True)
class _Worker:
    index: int
    callee: nn.Module | Job
    inputs: Sequence[Tensor]
    generator_state: Tensor
    passed: int = 0
    ended: bool = False
    waiting: bool = False
    outcome: Outcome = field(default_factory=lambda: Outcome({}))


class Baton:
    """Decides which thread may run; ``visit`` is what the points of the modules call. Good for one run.

    Args:
        schedule: Who runs when.
        patience_s: Seconds without any progress after which a thread counts as blocked.
        seed: Each thread starts from this seed and keeps a random number stream of its own.
        line_files: The files between whose lines there are points, beside those that are called.
    """

    def __init__(
        self,
        schedule: Schedule,
        *,
        patience_s: float,
        seed: int = 0,
        line_files: frozenset[str] = frozenset(),
    ) -> None:
        self._tracer = LineTracer(line_files, self.visit) if line_files else None
        self._blocked: Blocked | None = None
        self._turns = schedule.turns
        self._patience_s = patience_s
        self._generator_state = torch.Generator().manual_seed(seed).get_state()
        self._condition = threading.Condition()
        self._workers: list[_Worker] = []
        self._by_ident: dict[int, _Worker] = {}
        self._steps: list[Step] = []
        self._turn = 0
        self._free = False

    def run(self, callees: Sequence[nn.Module | Job], inputs: Sequence[Sequence[Tensor]]) -> ScheduledRun:
        """Let each thread do its work under the schedule.

        Args:
            callees: What each thread calls; the points on them must visit this baton.
            inputs: What each thread calls it with.
        """
        grads = torch.is_grad_enabled()
        self._workers = [
            _Worker(index, callee, own, self._generator_state)
            for index, (callee, own) in enumerate(zip(callees, inputs, strict=True))
        ]
        threads = [
            # Daemons: a thread that waits for a lock forever must not keep the process alive.
            threading.Thread(target=self._work, args=(worker, grads), daemon=True)
            for worker in self._workers
        ]
        for thread in threads:
            thread.start()
        try:
            hung = self._watch()
        finally:
            # Also after Ctrl-C: nobody stays behind waiting for a turn.
            self._let_go()
        if not hung:
            for thread in threads:
                thread.join()
        return ScheduledRun(
            outcomes=() if hung else tuple(worker.outcome for worker in self._workers),
            steps=tuple(self._steps),
            passed=tuple(worker.passed for worker in self._workers),
            blocked=self._blocked,
            hung=hung,
        )

    @contextlib.contextmanager
    def waiting_for_lock(self) -> Iterator[None]:
        """Hear that the calling thread waits for a lock, which another one holds where it stands."""
        worker = self._by_ident.get(threading.get_ident())
        if worker is None:
            yield
            return
        with self._condition:
            worker.waiting = True
            if not self._free:
                self._give_up()
            self._condition.notify_all()
        try:
            yield
        finally:
            worker.waiting = False

    def visit(self, point: Point) -> None:
        """Pass a point: go on, or hand over if the schedule ends the thread's turn here.

        Args:
            point: Where the calling thread is. Threads that the module started itself pass freely.
        """
        worker = self._by_ident.get(threading.get_ident())
        if worker is None:
            return
        worker.passed += 1
        with self._condition:
            hands_over = not self._free and self._turns[self._turn].stop == worker.passed
            self._steps.append(Step(LETTERS[worker.index], point, hands_over=hands_over))
            if hands_over:
                worker.generator_state = torch.get_rng_state()
                self._next_turn()
                self._wait_for_turn(worker)

    def _work(self, worker: _Worker, grads: bool) -> None:
        with self._condition:
            self._by_ident[threading.get_ident()] = worker
            self._wait_for_turn(worker)
        try:
            with as_in_caller(grads=grads):
                worker.outcome = (
                    self._traced(worker) if self._tracer else perform(worker.callee, worker.inputs)
                )
        except BaseException as error:  # noqa: BLE001 - whatever the module raises is a result
            worker.outcome = Outcome({}, error)
        with self._condition:
            worker.ended = True
            self._steps.append(Step(LETTERS[worker.index], None))
            del self._by_ident[threading.get_ident()]
            self._next_turn()

    def _traced(self, worker: _Worker) -> Outcome:
        """Do a thread's work with points between lines, and one between its forward and its gradients."""
        assert self._tracer is not None  # noqa: S101 - asked by the caller
        module = worker.callee.module if isinstance(worker.callee, Job) else worker.callee
        leave = Point("exit", "", type(module).__name__)
        with self._tracer.tracing():
            return perform(worker.callee, worker.inputs, lambda _: self.visit(leave))

    def _wait_for_turn(self, worker: _Worker) -> None:
        while not self._free and self._turns[self._turn].thread != worker.index:
            self._condition.wait()
        torch.set_rng_state(worker.generator_state)

    def _next_turn(self) -> None:
        """Give the turn to the next thread that has not ended; the condition must be held."""
        self._turn += 1
        while self._turn < len(self._turns) and self._workers[self._turns[self._turn].thread].ended:
            self._turn += 1
        # No turn is left when all have ended.
        self._free = self._free or self._turn == len(self._turns)
        self._condition.notify_all()

    def _let_go(self) -> None:
        with self._condition:
            self._free = True
            self._condition.notify_all()

    def _give_up(self) -> None:
        """Let all run freely, as the turn cannot be taken; the condition must be held."""
        self._blocked = Blocked(self._turn, self._workers[self._turns[self._turn].thread].passed)
        self._free = True
        self._condition.notify_all()

    def _watch(self) -> bool:
        """Wait until all have ended, and tell whether they did not: one that waits must not stop the others."""
        with self._condition:
            seen, since = self._progress(), time.monotonic()
            while not all(worker.ended for worker in self._workers):
                patience_s = self._patience()
                self._condition.wait(max(0.0, since + patience_s - time.monotonic()))
                if self._progress() != seen:
                    seen, since = self._progress(), time.monotonic()
                elif time.monotonic() >= since + patience_s:
                    if self._free:
                        return True
                    self._give_up()
        return False

    def _progress(self) -> tuple[object, ...]:
        return len(self._steps), self._free, *(worker.waiting for worker in self._workers)

    def _patience(self) -> float:
        if all(worker.waiting for worker in self._workers if not worker.ended):
            return _DEADLOCK_S
        return self._patience_s * (_LAST_PATIENCE if self._free else 1)
