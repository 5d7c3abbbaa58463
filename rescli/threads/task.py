"""One scenario of one block: what it is given, and how its result is written down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from rescli.threads.arrange import share
from rescli.threads.footing import Subject, resettle, settle_footing
from rescli.threads.limits import SCHEDULED
from rescli.threads.result import ThreadsResult

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torch import Tensor

    from rescli.threads.arrange import Arrangement
    from rescli.threads.footing import Footing
    from rescli.threads.inputs import Block
    from rescli.threads.limits import Limits
    from rescli.threads.result import Failure
    from rescli.threads.wording import Verdict


class Facts(TypedDict, total=False):
    """The fields of a result that only some scenarios fill."""

    runs: int
    wrong: int
    bound: int | None
    threads: int
    points: int | None
    schedules: int | None
    schedule: str | None
    changed: tuple[str, ...]
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class Notes:
    """What is to be told of a block that is checked with less than it has.

    Args:
        inputs: That its inputs are smaller; empty if they are not.
        gradients: That not all gradients are compared; empty if they are.
    """

    inputs: str = ""
    gradients: str = ""

    def for_scenario(self, scenario: str) -> tuple[str, ...]:
        """Give what matters in a scenario.

        Args:
            scenario: Its name.
        """
        compares = scenario in SCHEDULED or scenario == "stress"
        return tuple(filter(None, (self.inputs, self.gradients if compares else "")))


@dataclass(frozen=True, slots=True)
class Task:
    """One scenario of one block.

    Args:
        block: What is checked.
        inputs: An input for each thread; as many as any scenario has threads.
        scenario: Its name.
        limits: How far to go.
        deadline: When this scenario is to end, by the clock.
        end: When all of them are to end.
        clock: Seconds, as ``time.monotonic`` gives them.
        say: Told what is being done.
        known: What an earlier scenario of this block has found out about plain calls, under ``plain``.
        notes: What is to be told of the block, whatever the result.
    """

    block: Block
    inputs: tuple[tuple[Tensor, ...], ...]
    scenario: str
    limits: Limits
    deadline: float
    end: float
    clock: Callable[[], float]
    say: Callable[[str], None]
    known: dict[str, Footing]
    notes: Notes = Notes()

    @property
    def spec_file(self) -> Path | None:
        """The file that the block comes from, if it has one."""
        return getattr(self.block, "spec_file", None)

    def out_of_time(self) -> bool:
        """Tell whether this scenario has had its share of the time."""
        return self.clock() >= self.deadline

    def all_out_of_time(self) -> bool:
        """Tell whether no scenario has any time left."""
        return self.clock() >= self.end

    def footing(
        self, arrange: Arrangement, threads: int, *, with_points: bool = True, anew: bool = False
    ) -> Footing:
        """Find out what each thread gets alone; only the end of all time stops that.

        Args:
            arrange: What the threads call.
            threads: How many there are.
            with_points: Whether layers are marked with hooks.
            anew: Whether these jobs may want another mode of the module than plain calls do.
        """
        subject = Subject(
            self.block.module,
            arrange,
            self.inputs[:threads],
            points="layers" if with_points else "none",
            seed=self.limits.seed,
            patience_s=self.limits.patience_s,
            out_of_time=self.all_out_of_time,
        )
        plain = self.known.get("plain")
        is_plain = arrange is share and with_points
        if plain is None or anew:
            found = settle_footing(subject)
        elif is_plain and threads == len(plain.references):
            return plain
        else:
            found = resettle(plain, subject, kept=min(threads, len(plain.references)) if is_plain else 0)
        if is_plain:
            self.known.setdefault("plain", found)
        return found

    def result(self, verdict: Verdict, facts: Facts) -> ThreadsResult:
        """Write the result down.

        Args:
            verdict: Status and detail.
            facts: What else is known; the rest is null.
        """
        known: Facts = {
            "runs": 0,
            "wrong": 0,
            "bound": self.limits.preemptions if self.scenario in SCHEDULED else None,
            "threads": self.limits.threads,
            "points": None,
            "schedules": None,
            "schedule": None,
        }
        known.update(facts)
        status, detail = verdict
        return ThreadsResult(
            name=self.block.name,
            target=self.block.target,
            scenario=self.scenario,
            status=status,
            detail=detail
            if status == "skip"
            else "; ".join((detail, *self.notes.for_scenario(self.scenario))),
            **known,
        )
