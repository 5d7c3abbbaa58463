"""The scenarios: which situation is tried with a block."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from rescli.errors import CommandLineError
from rescli.threads.arrange import replicate, share
from rescli.threads.copies import IncomparableError, copy_module, refuse_compiled
from rescli.threads.explore import explore
from rescli.threads.footing import Subject, settle_footing
from rescli.threads.inputs import equal_inputs, varied_inputs
from rescli.threads.limits import SCHEDULED
from rescli.threads.outcome import call, describe_error
from rescli.threads.result import Failure, ThreadsResult
from rescli.threads.schedule import LETTERS, Schedule, select_schedules
from rescli.threads.state import changed_names, take_snapshot
from rescli.threads.stress import run_stress
from rescli.threads.surroundings import quiet_process
from rescli.threads.wording import count, judge_replay, judge_schedules, judge_state, judge_stress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torch import Tensor, nn

    from rescli.threads.footing import Footing
    from rescli.threads.inputs import Block
    from rescli.threads.limits import Limits
    from rescli.threads.wording import Verdict


class SingleThreadError(Exception):
    """The block cannot even be called by a single thread; its cause is what was raised."""


class _Facts(TypedDict, total=False):
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
class _Task:
    """One scenario of one block."""

    block: Block
    inputs: tuple[tuple[Tensor, ...], ...]
    scenario: str
    limits: Limits
    deadline: float
    clock: Callable[[], float]
    say: Callable[[str], None]

    def out_of_time(self) -> bool:
        return self.clock() >= self.deadline

    def footing(self, *, threads: int, with_points: bool) -> Footing:
        return settle_footing(
            Subject(
                self.block.module,
                replicate if self.scenario == "replicas" else share,
                self.inputs[:threads],
                with_points=with_points,
                seed=self.limits.seed,
                patience_s=self.limits.patience_s,
            )
        )

    def result(self, verdict: Verdict, facts: _Facts) -> ThreadsResult:
        known: _Facts = {
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
            detail=detail,
            **known,
        )


def check_block(
    block: Block,
    scenarios: Sequence[str],
    limits: Limits,
    *,
    replay: Schedule | None = None,
    say: Callable[[str], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[ThreadsResult]:
    """Try scenarios on a block and give the result of each as soon as it is there.

    Args:
        block: What is checked; it is left as it is.
        scenarios: Their names, keys of ``SCENARIOS``.
        limits: How far to go. The time is divided among the scenarios.
        replay: The only schedule to run, in the one scenario given; None for all within the limits.
        say: Told what is being done.
        clock: Seconds, as ``time.monotonic`` gives them.

    Raises:
        SingleThreadError: The block cannot even be called by a single thread.
        CommandLineError: The block has fewer points than the schedule to replay needs.
    """
    end = clock() + limits.max_time_s
    reason = ""
    inputs: tuple[tuple[Tensor, ...], ...] = ()
    with quiet_process():
        try:
            refuse_compiled(block.module)
            inputs = _usable_inputs(block, limits)
        except IncomparableError as error:
            reason = str(error)
    for index, scenario in enumerate(scenarios):
        deadline = clock() + max(0.0, end - clock()) / (len(scenarios) - index)
        task = _Task(block, inputs, scenario, limits, deadline, clock, say)
        if reason:
            yield task.result(("skip", reason), {})
            continue
        say(f"{block.name}: {scenario}")
        # Not around the yield: what is put back must be back when the caller goes on.
        with quiet_process():
            try:
                result = _RUN[scenario](task) if replay is None else _replay(task, replay)
            except IncomparableError as error:
                result = task.result(("skip", str(error)), {})
        yield result


def _usable_inputs(block: Block, limits: Limits) -> tuple[tuple[Tensor, ...], ...]:
    """Give each thread an input that the block takes from a thread that is alone."""
    threads = max(limits.threads, limits.stress_threads)
    raised: list[Exception] = []
    for make in (varied_inputs, equal_inputs):
        inputs = make(block, threads, limits.seed)
        # A batch size that is fixed shows in the second; the others only differ from it by more of the same.
        raised = [error for own in inputs[:2] if (error := _first_error(block.module, own)) is not None]
        if not raised:
            return inputs
    raise SingleThreadError from raised[0]


def _first_error(module: nn.Module, inputs: tuple[Tensor, ...]) -> Exception | None:
    """Give what the block raises in a single thread, unless there is a mode in which it raises nothing."""
    raised: Exception | None = None
    for copied in _in_each_mode(module):
        try:
            call(copied, inputs)
        except Exception as error:  # noqa: BLE001, PERF203 - whatever is raised is reported; there are two modes at most
            raised = raised or error
        else:
            return None
    return raised


def _in_each_mode(module: nn.Module) -> Iterator[nn.Module]:
    """Give a copy in the module's own mode, then one in eval mode if that is another one."""
    yield copy_module(module)
    if any(layer.training for layer in module.modules()):
        yield copy_module(module).eval()


def _run_state(task: _Task) -> ThreadsResult:
    """Run two forwards in one thread and see what each left behind on the module."""
    raised = ""
    for copied in _in_each_mode(task.block.module):
        try:
            first, second = _changes(copied, task.inputs[:2])
        except Exception as error:  # noqa: BLE001, PERF203 - whatever is raised is reported; there are two modes at most
            raised = describe_error(error)
        else:
            break
    else:
        raise IncomparableError(f"a single thread raises {raised}")
    return task.result(
        judge_state(first, second),
        {
            "runs": 2,
            "wrong": bool(first) + bool(second),
            "threads": 1,
            "changed": tuple(sorted({*first, *second})),
        },
    )


def _changes(module: nn.Module, inputs: Sequence[tuple[Tensor, ...]]) -> tuple[tuple[str, ...], ...]:
    """Name what each forward changes on the module, one after the other."""
    snapshots = [take_snapshot(module)]
    for own in inputs:
        call(module, own)
        snapshots.append(take_snapshot(module))
    return tuple(changed_names(before, after) for before, after in itertools.pairwise(snapshots))


def _run_schedules(task: _Task) -> ThreadsResult:
    """Try the schedules within the bound."""
    limits = task.limits
    footing = task.footing(threads=limits.threads, with_points=True)
    selection = select_schedules(footing.points, limits.preemptions, limits.schedules, limits.seed)

    def announced() -> Iterator[Schedule]:
        for index, schedule in enumerate(selection.schedules):
            if index % 20 == 0:
                task.say(
                    f"{task.block.name}: {task.scenario}, schedule {index} of {len(selection.schedules)}"
                )
            yield schedule

    found = explore(footing, announced(), task.out_of_time)
    return task.result(
        judge_schedules(limits, footing, selection, found),
        {
            "runs": found.runs,
            "wrong": found.wrong,
            "points": max(footing.points),
            "schedules": selection.total,
            "schedule": None if found.schedule is None else f"{task.scenario}:{found.schedule}",
            "failure": found.failure,
        },
    )


def _replay(task: _Task, schedule: Schedule) -> ThreadsResult:
    """Run one schedule again."""
    footing = task.footing(threads=schedule.threads, with_points=True)
    for turn in schedule.turns:
        if turn.stop is not None and turn.stop > footing.points[turn.thread]:
            raise CommandLineError(
                f"--replay {task.scenario}:{schedule}: thread {LETTERS[turn.thread]} passes only "
                f"{count(footing.points[turn.thread], 'point')} in {task.block.target}",
                hint="give the target, --set, --input and --batch-size of the run that printed the schedule",
            )
    found = explore(footing, (schedule,), lambda: False)
    return task.result(
        judge_replay(footing, schedule, found),
        {
            "runs": found.runs,
            "wrong": found.wrong,
            "bound": schedule.preemptions,
            "threads": schedule.threads,
            "points": max(footing.points),
            "schedule": f"{task.scenario}:{schedule}" if found.wrong else None,
            "failure": found.failure,
        },
    )


def _run_stress(task: _Task) -> ThreadsResult:
    """Let threads run freely, without any points on the module."""
    footing = task.footing(threads=task.limits.stress_threads, with_points=False)
    found = run_stress(footing, task.limits.iterations, task.out_of_time)
    return task.result(
        judge_stress(task.limits, footing, found),
        {
            "runs": found.calls,
            "wrong": found.wrong,
            "threads": task.limits.stress_threads,
            "failure": Failure(found.first) if found.first else None,
        },
    )


_RUN = {
    "state": _run_state,
    "shared": _run_schedules,
    "replicas": _run_schedules,
    "stress": _run_stress,
}
