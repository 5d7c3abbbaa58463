"""What a check with threads found out, as frozen facts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["pass", "fail", "warn", "skip"]
# What is expected of a way of copying that does not raise, and of a thread that raises whether others run or not.
WORKS = "works"
ALSO_ALONE = "the same exception"


@dataclass(frozen=True, slots=True)
class Point:
    """A place in a forward pass where one thread can hand over to another.

    Args:
        event: Whether the layer is about to start or has just ended, or a source line is about to run.
        path: The layer's position in the module tree (``1.0``); empty for the module itself and for lines.
        type: The layer's class, as it is written; for a line the name of the function that it is in.
        file: The name of the line's file; empty for layers.
        line: Its number; 0 for layers.
        source: Its text.
        writes: Whether something that other threads may see is written in this line, as far as its code tells.
    """

    event: Literal["entry", "exit", "line"]
    path: str
    type: str
    file: str = ""
    line: int = 0
    source: str = ""
    writes: bool = False

    @property
    def layer(self) -> str:
        """The layer as text: its path and its class.

        Example:
            >>> Point("exit", "1.0", "Linear").layer
            '1.0 Linear'
        """
        return f"{self.path} {self.type}" if self.path else self.type


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that a thread did under a schedule.

    Args:
        thread: The thread's letter.
        point: The point it passed, or None for the end of its work.
        hands_over: Whether it stopped there, before its end, and another thread went on.
    """

    thread: str
    point: Point | None
    hands_over: bool = False


@dataclass(frozen=True, slots=True)
class Wrong:
    """One value that a thread got wrong.

    Args:
        thread: The thread's letter.
        value: ``output``, ``gradient of 1.weight``, ``gradient of input 0`` or ``exception``.
        found: What the thread got, as text.
        expected: What the same call gives in a single thread, as text.
    """

    thread: str
    value: str
    found: str
    expected: str

    @property
    def sentence(self) -> str:
        """What the thread got and what it should have got, in a sentence.

        Example:
            >>> Wrong("B", "output", "shape (8, 4)", "shape (9, 4)").sentence
            'thread B: output is shape (8, 4), alone it is shape (9, 4)'
            >>> Wrong("B", "exception", "KeyError: 3", "no exception").sentence
            'thread B raises KeyError: 3, alone it does not'
        """
        if self.expected == WORKS:
            return f"thread {self.thread}: {self.value} {self.found}, alone it works"
        if self.value != "exception":
            return f"thread {self.thread}: {self.value} is {self.found}, alone it is {self.expected}"
        if self.expected == ALSO_ALONE:
            return f"thread {self.thread} raises {self.found}, also when it runs alone"
        return f"thread {self.thread} raises {self.found}, alone it does not"


@dataclass(frozen=True, slots=True)
class Failure:
    """The failing schedule with the fewest hand-overs, step by step.

    Args:
        wrong: Every value that differs; at least one.
        steps: What the threads did, in order; empty where they ran freely.
    """

    wrong: tuple[Wrong, ...]
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class ThreadsResult:
    """What one scenario showed for one block.

    Args:
        name: The variable or function that the block comes from.
        target: The block as a TARGET of the command line.
        scenario: Which situation was tried.
        status: ``pass`` for what was explored, ``fail`` for a wrong result, ``warn`` for something that can
            be harmless, ``skip`` where nothing could be compared.
        runs: How many runs were compared: schedules, calls of free threads, or forwards.
        wrong: How many of them were wrong (of the state scenario: wrote to the module).
        bound: The most preemptions that a schedule had, or None where there are no schedules.
        threads: How many threads there were.
        points: The places where a thread could hand over, or None where there are no schedules.
        schedules: How many schedules lie within the bound, or None if unknown or there are none.
        schedule: A failing schedule as ``--replay`` takes it, or None.
        detail: What was explored, and what was found, in one or two sentences.
        changed: The names of what a forward changed on the module.
        failure: What went wrong, or None.
    """

    name: str
    target: str
    scenario: str
    status: Status
    runs: int
    wrong: int
    bound: int | None
    threads: int
    points: int | None
    schedules: int | None
    schedule: str | None
    detail: str
    changed: tuple[str, ...] = ()
    failure: Failure | None = None
