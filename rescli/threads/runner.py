"""Runs threads one at a time, in the order that a schedule says.

Each thread waits for its turn, works until the point where its turn ends, and wakes the next one. Nothing
else is added: between two points a thread runs as it would alone, so what another thread left behind on a
shared object is exactly what it finds.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from rescli.threads.outcome import Outcome, call
from rescli.threads.result import Point, Step
from rescli.threads.schedule import LETTERS
from rescli.threads.surroundings import as_in_caller

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor, nn

    from rescli.threads.schedule import Schedule

# Threads that may all run are given so much longer before they are left behind.
_LAST_PATIENCE = 10


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
    module: nn.Module
    inputs: Sequence[Tensor]
    generator_state: Tensor
    passed: int = 0
    ended: bool = False
    outcome: Outcome = field(default_factory=lambda: Outcome({}))


class Baton:
    """Decides which thread may run; ``visit`` is what the points of the modules call. Good for one run.

    Args:
        schedule: Who runs when.
        patience_s: Seconds without any progress after which a thread counts as blocked.
        seed: Each thread starts from this seed and keeps a random number stream of its own.
    """

    def __init__(self, schedule: Schedule, *, patience_s: float, seed: int = 0) -> None:
        self._turns = schedule.turns
        self._patience_s = patience_s
        self._generator_state = torch.Generator().manual_seed(seed).get_state()
        self._condition = threading.Condition()
        self._workers: list[_Worker] = []
        self._by_ident: dict[int, _Worker] = {}
        self._steps: list[Step] = []
        self._turn = 0
        self._free = False

    def run(self, modules: Sequence[nn.Module], inputs: Sequence[Sequence[Tensor]]) -> ScheduledRun:
        """Call one module a thread under the schedule.

        Args:
            modules: What each thread calls; the points on them must visit this baton.
            inputs: What each thread calls it with.
        """
        grads = torch.is_grad_enabled()
        self._workers = [
            _Worker(index, module, own, self._generator_state)
            for index, (module, own) in enumerate(zip(modules, inputs, strict=True))
        ]
        threads = [
            # Daemons: a thread that waits for a lock forever must not keep the process alive.
            threading.Thread(target=self._work, args=(worker, grads), daemon=True)
            for worker in self._workers
        ]
        for thread in threads:
            thread.start()
        try:
            blocked, hung = self._watch()
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
            blocked=blocked,
            hung=hung,
        )

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
                worker.outcome = call(worker.module, worker.inputs)
        except BaseException as error:  # noqa: BLE001 - whatever the module raises is a result
            worker.outcome = Outcome({}, error)
        with self._condition:
            worker.ended = True
            self._steps.append(Step(LETTERS[worker.index], None))
            del self._by_ident[threading.get_ident()]
            self._next_turn()

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

    def _watch(self) -> tuple[Blocked | None, bool]:
        """Wait until all have ended; a thread that cannot go on must not stop the others."""
        blocked, patience_s = None, self._patience_s
        with self._condition:
            seen, since = len(self._steps), time.monotonic()
            while not all(worker.ended for worker in self._workers):
                self._condition.wait(max(0.0, since + patience_s - time.monotonic()))
                if len(self._steps) > seen:
                    seen, since = len(self._steps), time.monotonic()
                elif time.monotonic() >= since + patience_s:
                    if self._free:
                        return blocked, True
                    patience_s *= _LAST_PATIENCE
                    blocked = Blocked(self._turn, self._workers[self._turns[self._turn].thread].passed)
                    self._free = True
                    self._condition.notify_all()
                    since = time.monotonic()
        return blocked, False
