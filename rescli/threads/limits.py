"""How far a check goes, and which scenarios there are; known without torch."""

from __future__ import annotations

from dataclasses import dataclass

SCENARIOS = {
    "state": "what a forward leaves behind on the module",
    "shared": "schedules of threads that share one module",
    "replicas": "schedules of threads with a replica each, as nn.DataParallel makes them",
    "stress": "threads that run freely on one module; no proof",
}
SCHEDULED = ("shared", "replicas")


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a check goes.

    Args:
        threads: Threads of a schedule, 2 to 8.
        stress_threads: Threads of the stress.
        iterations: Calls of each thread of the stress.
        preemptions: The most times that one schedule interrupts a thread.
        schedules: The most schedules of one scenario.
        max_time_s: Seconds for all scenarios of one block.
        seed: Decides input values, random numbers in the block, and which schedules are tried.
        patience_s: Seconds without progress after which a thread counts as blocked; None for 20 times what
            the block takes, and at least half a second.
    """

    threads: int = 2
    stress_threads: int = 4
    iterations: int = 50
    preemptions: int = 2
    schedules: int = 150
    max_time_s: float = 30.0
    seed: int = 0
    patience_s: float | None = None
