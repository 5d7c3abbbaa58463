"""Random schedules by priorities, for races that need more preemptions than a bound can list.

PCT (Burckhardt, Kothari, Musuvathi and Nagarakatte, "A Randomized Scheduler with Probabilistic Guarantees of
Finding Bugs", 2010): the threads have random priorities, the one with the highest runs, and at ``d - 1`` steps
drawn at random the running thread falls below all that have not fallen. Of ``n`` threads with ``k`` steps
together, one such schedule meets a fault that needs ``d`` ordered steps with a chance of at least
``1 / (n * k ** (d - 1))``.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from rescli.threads.schedule import Schedule, Turn

if TYPE_CHECKING:
    from collections.abc import Sequence

# So many times more than the bound a thread may fall.
BEYOND = 3


def random_schedules(points: Sequence[int], preemptions: int, number: int, seed: int) -> tuple[Schedule, ...]:
    """Draw different schedules with more preemptions than the bound, and at most ``BEYOND`` more.

    A larger ``number`` gives the same ones first.

    Args:
        points: How many points each thread passes when it is alone. No thread waits for another here, so
            the whole schedule is known beforehand.
        preemptions: The bound.
        number: How many to draw; fewer where there are no more.
        seed: Decides which.
    """
    generator = random.Random(f"{seed}:priorities")  # noqa: S311 - chooses schedules, keeps no secret
    drawn: dict[Schedule, None] = {}
    for _ in range(20 * number):
        if len(drawn) == number:
            break
        falls = preemptions + generator.randint(1, BEYOND)
        schedule = _by_priority(points, falls, generator)
        if schedule.preemptions > preemptions:
            drawn.setdefault(schedule)
    return tuple(drawn)


def _by_priority(points: Sequence[int], falls: int, generator: random.Random) -> Schedule:
    """Follow the priorities step by step, and note where another thread goes on."""
    total = sum(points)
    # The priority that the running thread falls to, by step: as they were drawn, the first one the lowest.
    fallen_to = {
        step: low for low, step in enumerate(generator.sample(range(1, total + 1), min(falls, total)))
    }
    highs = generator.sample(range(len(points)), len(points))
    priority = {thread: falls + high for thread, high in enumerate(highs)}
    passed = [0] * len(points)
    turns: list[Turn] = []
    step = 0
    while priority:
        thread = max(priority, key=priority.__getitem__)
        while passed[thread] < points[thread] and thread == max(priority, key=priority.__getitem__):
            passed[thread] += 1
            step += 1
            priority[thread] = fallen_to.get(step, priority[thread])
        if thread == max(priority, key=priority.__getitem__):
            turns.append(Turn(thread))
            del priority[thread]
        else:
            turns.append(Turn(thread, passed[thread]))
    return Schedule(tuple(turns))
