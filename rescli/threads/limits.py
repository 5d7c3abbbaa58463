"""How far a check goes, and which scenarios there are; known without torch."""

from __future__ import annotations

from dataclasses import dataclass

SCENARIOS = {
    "state": "what a forward leaves behind on the module",
    "shared": "schedules of threads that share one module",
    "replicas": "schedules of threads with a replica each, as nn.DataParallel makes them",
    "dataparallel": "nn.DataParallel itself, where there are GPUs",
    "nested": "calls that begin while another call in the same thread runs",
    "lazy": "first calls from many threads at once, of what is made or sized in the first call",
    "copies": "deepcopy, pickle and state_dict while other threads run forward",
    "exception": "one thread raises in forward and calls again, while others run",
    "batchnorm": "what the replicas' statistics come to in train mode",
    "stress": "threads that run freely on one module; no proof",
}
SCHEDULED = ("shared", "replicas", "nested", "lazy", "copies", "exception")
# Scenarios with more threads than the others, unless their number is given.
MANY_THREADS = ("lazy", "exception", "stress")
MOST_SCHEDULES = ("shared", "replicas")
# Seconds for all scenarios of a block, unless they are given; longer, up to the second number, where the first
# few schedules of each scenario take longer.
USUAL_TIME_S, MOST_TIME_S = 8.0, 120.0
# How the time that is left is divided; one part for each that is not named.
TIME_PARTS = {"shared": 4, "replicas": 2, "lazy": 2, "stress": 2}


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a check goes.

    Args:
        threads: Threads of a schedule, 2 to 8.
        many_threads: Threads of the scenarios ``MANY_THREADS``.
        iterations: Calls of each thread of the stress.
        preemptions: The most times that one schedule interrupts a thread.
        schedules: The most schedules of one scenario within that bound; between lines again as many.
        random_schedules: The most random schedules of one scenario beyond that bound.
        lines: Whether threads hand over between source lines too, where layers show nothing.
        max_time_s: Seconds for all scenarios of one block; None for ``USUAL_TIME_S``, and up to ``MOST_TIME_S``
            where the first few schedules of each scenario take longer.
        seed: Decides input values, random numbers in the block, and which schedules are tried.
        patience_s: Seconds without progress after which a thread counts as blocked; None for 20 times what
            the block takes, and at least half a second.
    """

    threads: int = 2
    many_threads: int = 4
    iterations: int = 50
    preemptions: int = 2
    schedules: int = 150
    random_schedules: int = 20
    lines: bool = True
    max_time_s: float | None = None
    seed: int = 0
    patience_s: float | None = None

    @property
    def time_s(self) -> float:
        """The seconds that are divided among the scenarios."""
        return USUAL_TIME_S if self.max_time_s is None else self.max_time_s

    @property
    def end_s(self) -> float:
        """The seconds after which nothing more is tried."""
        return MOST_TIME_S if self.max_time_s is None else self.max_time_s

    def within(self, scenario: str) -> int:
        """Give the most schedules of a scenario within the bound, for layers and for lines each.

        Args:
            scenario: Its name. What only few modules get wrong gets a third of the schedules.
        """
        return self.schedules if scenario in MOST_SCHEDULES else max(2, self.schedules // 3)

    def beyond(self, scenario: str) -> int:
        """Give the most random schedules of a scenario beyond the bound.

        Args:
            scenario: Its name.
        """
        return self.random_schedules if scenario in MOST_SCHEDULES else self.random_schedules // 3

    def threads_of(self, scenario: str) -> int:
        """Give the number of threads of a scenario.

        Args:
            scenario: Its name.
        """
        return self.many_threads if scenario in MANY_THREADS else self.threads
