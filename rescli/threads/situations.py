"""What is done in each scenario."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

from torch import nn
from torch.nn.parameter import is_lazy

from rescli.threads.arrange import replicate, share
from rescli.threads.copies import IncomparableError, NeverEndsError, in_each_mode
from rescli.threads.copying import copy_while_running, refused
from rescli.threads.dataparallel import gpus, run_parallel
from rescli.threads.first_call import call_first
from rescli.threads.footing import points_of, run_alone
from rescli.threads.nested import merged, reenter
from rescli.threads.outcome import Outcome, call, compare, describe_error
from rescli.threads.places import layers_that_run, some_of
from rescli.threads.raising import AS_BEFORE, CONTEXT, raise_in_one
from rescli.threads.result import Failure
from rescli.threads.scatter import wrong_dimension
from rescli.threads.schedule import LETTERS
from rescli.threads.scheduled import replay_schedule, run_schedules
from rescli.threads.state import changed_names, take_snapshot
from rescli.threads.statistics import lost_statistics
from rescli.threads.stress import run_stress
from rescli.threads.wording import (
    judge_exception,
    judge_nested,
    judge_state,
    judge_statistics,
    judge_stress,
    warn_of_dimension,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from rescli.threads.arrange import Arrangement
    from rescli.threads.result import ThreadsResult
    from rescli.threads.schedule import Schedule
    from rescli.threads.task import Task
    from rescli.threads.wording import Verdict

# A call within a call is tried before so many layers, in one thread; with several threads before one.
_NESTED_PLACES = 6
# Before so many layers a thread meets an exception.
_RAISING_PLACES = 2
# Calls through nn.DataParallel: its threads run freely.
_PARALLEL_CALLS = 10


def _run_state(task: Task) -> ThreadsResult:
    """Run two forwards in one thread and see what each left behind on the module."""
    first, second = _changes_in_some_mode(task, task.inputs[:2])
    return task.result(
        judge_state(first, second),
        {
            "runs": 2,
            "wrong": bool(first) + bool(second),
            "threads": 1,
            "changed": tuple(sorted({*first, *second})),
        },
    )


def _changes_in_some_mode(
    task: Task, inputs: Sequence[tuple[Tensor, ...]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Name what two forwards change on the module, in its own mode or, if it raises there, in eval mode."""
    raised = ""
    for copied in in_each_mode(task.block.module):
        try:
            first, second = _changes(copied, inputs)
        except Exception as error:  # noqa: BLE001, PERF203 - whatever is raised is reported; there are two modes at most
            raised = describe_error(error)
        else:
            return first, second
    raise IncomparableError(f"a single thread raises {raised}")


def _changes(module: nn.Module, inputs: Sequence[tuple[Tensor, ...]]) -> tuple[tuple[str, ...], ...]:
    snapshots = [take_snapshot(module)]
    for own in inputs:
        call(module, own)
        snapshots.append(take_snapshot(module))
    return tuple(changed_names(before, after) for before, after in itertools.pairwise(snapshots))


def _run_shared(task: Task) -> ThreadsResult:
    return run_schedules(task, task.footing(share, task.limits.threads))


def _run_replicas(task: Task) -> ThreadsResult:
    """Try schedules on replicas, and see that what would be cut for them is the batch."""
    found = run_schedules(
        task, task.footing(replicate, task.limits.threads, anew=_has_lazy(task.block.module))
    )
    if found.status == "fail" or task.all_out_of_time():
        return found
    dim = wrong_dimension(task.block.module, task.inputs[0], task.block.batch_dim)
    if dim is None:
        return found
    warning = warn_of_dimension(dim, tuple(task.inputs[0][0].shape))
    return replace(found, status="warn", detail=f"{warning}; {found.detail}")


def _has_lazy(module: nn.Module) -> bool:
    return any(is_lazy(parameter) for parameter in module.parameters())


def _run_dataparallel(task: Task) -> ThreadsResult:
    """Let nn.DataParallel itself run, where it has something to run on."""
    devices = gpus()
    dim = task.block.batch_dim
    inputs = task.block.resized(2 * len(devices) + 1)
    found = run_parallel(
        task.block.module,
        inputs,
        devices,
        dim,
        _PARALLEL_CALLS,
        lambda module: nn.DataParallel(module, [device.index for device in devices], dim=dim),
    )
    calls = f"{found.runs} calls through nn.DataParallel on {len(devices)} GPUs"
    verdict: Verdict = (
        ("fail", f"{found.first} differ from those of the parts; {found.wrong} of {calls} wrong")
        if found.wrong
        else ("pass", f"{calls} right: no proof, as its threads run freely")
    )
    return task.result(verdict, {"runs": found.runs, "wrong": found.wrong, "threads": len(devices)})


def _run_nested(task: Task) -> ThreadsResult:
    """Call within calls: in one thread before several layers, then in several threads before one."""
    own = task.inputs[: task.limits.threads]
    plain = task.footing(share, task.limits.threads)
    expected = merged(plain.references[0], plain.references[1])
    paths = some_of(layers_that_run(plain.steps[0]), _NESTED_PLACES)
    tried = 0
    for path in paths:
        if tried and task.out_of_time():
            break
        tried += 1
        subject = replace(plain.subject, arrange=reenter(path, own, task.limits.seed))
        try:
            inner = run_alone(subject, plain.base, 0, plain.patience_s).outcomes[0]
        except NeverEndsError as error:
            raise IncomparableError(
                f"a call before {path} within a call never ends, as if it waited for a lock that its own "
                "outer call holds"
            ) from error
        wrong = compare(LETTERS[0], inner, expected)
        if wrong:
            return task.result(judge_nested(wrong, path), {"runs": 1, "wrong": 1, "threads": 1})
    found = run_schedules(task, task.footing(_arrange_nested(task), task.limits.threads))
    where = f"each of {tried} layers" if tried > 1 else "one layer"
    return _told(found, f"calls within calls: right before {where} in one thread")


def _arrange_nested(task: Task) -> Arrangement:
    """Let the inner calls take place before the layer in the middle."""
    paths = layers_that_run(task.footing(share, task.limits.threads).steps[0])
    return reenter(paths[len(paths) // 2], task.inputs, task.limits.seed)


def _run_lazy(task: Task) -> ThreadsResult:
    """Let many threads make first calls at once, where these do more than later ones."""
    first, second = _changes_in_some_mode(task, (task.inputs[0], task.inputs[0]))
    made = [name for name in first if name not in second]
    if not made:
        raise IncomparableError(
            "nothing is made or sized in the first call that a second one leaves as it is"
        )
    found = run_schedules(task, task.footing(call_first, task.limits.many_threads))
    told = f"{', '.join(made[:3])}{f' and {len(made) - 3} more' if len(made) > 3 else ''}"
    return replace(found, detail=f"{found.detail}; made or sized in the first call: {told}")


def _run_copies(task: Task) -> ThreadsResult:
    """Let threads copy the module that others run."""
    footing = task.footing(copy_while_running, task.limits.threads, anew=True)
    found = run_schedules(task, footing)
    note = refused(footing.references[1])
    return replace(found, detail=f"{found.detail}; {note}") if note else found


def _run_exception(task: Task) -> ThreadsResult:
    """Have exceptions raised in one thread: its next call and all other threads must be right."""
    threads = task.limits.many_threads
    plain = task.footing(share, threads)
    if plain.raising:
        # The module's own exception is the one to tell of; nothing is planted.
        return run_schedules(task, plain)
    paths = some_of(layers_that_run(plain.steps[0]), _RAISING_PLACES)
    subject = replace(plain.subject, arrange=raise_in_one(paths))
    alone = run_alone(subject, plain.base, 0, plain.patience_s)
    after = alone.outcomes[0]
    expected = Outcome({CONTEXT: AS_BEFORE, **plain.references[0].values})
    wrong = compare(LETTERS[0], after, expected)
    if wrong:
        return task.result(judge_exception(wrong, paths), {"runs": 1, "wrong": 1, "threads": 1})
    # Only the first thread does something else than before.
    footing = replace(
        plain,
        subject=subject,
        references=(after, *plain.references[1:]),
        steps=(points_of(alone), *plain.steps[1:]),
        right=frozenset(),
    )
    found = run_schedules(task, footing)
    return _told(found, f"thread A met an exception before {' and before '.join(paths)}, then called again")


def _arrange_exception(task: Task) -> Arrangement:
    paths = layers_that_run(task.footing(share, task.limits.many_threads).steps[0])
    return raise_in_one(some_of(paths, _RAISING_PLACES))


def _told(found: ThreadsResult, more: str) -> ThreadsResult:
    """Say more of what was done; what is wrong comes first."""
    texts = (found.detail, more) if found.status == "fail" else (more, found.detail)
    return replace(found, detail="; ".join(texts))


def _run_batchnorm(task: Task) -> ThreadsResult:
    """See what is left of the statistics that replicas gather."""
    threads = task.limits.threads
    first, none = lost_statistics(task.block.module, task.inputs[:threads])
    wrong = threads if none else threads - 1 if first else 0
    return task.result(judge_statistics(first, none, threads), {"runs": threads, "wrong": wrong})


def _run_stress(task: Task) -> ThreadsResult:
    """Let threads run freely, without any points on the module."""
    threads = task.limits.many_threads
    footing = task.footing(share, threads, with_points=False)
    found = run_stress(footing, task.limits.iterations, task.out_of_time)
    return task.result(
        judge_stress(task.limits, footing, found),
        {
            "runs": found.calls,
            "wrong": found.wrong,
            "threads": threads,
            "failure": Failure(found.first) if found.first else None,
        },
    )


RUN: dict[str, Callable[[Task], ThreadsResult]] = {
    "state": _run_state,
    "shared": _run_shared,
    "replicas": _run_replicas,
    "dataparallel": _run_dataparallel,
    "nested": _run_nested,
    "lazy": _run_lazy,
    "copies": _run_copies,
    "exception": _run_exception,
    "batchnorm": _run_batchnorm,
    "stress": _run_stress,
}


def run_again(task: Task, schedule: Schedule) -> ThreadsResult:
    """Run one schedule of a scenario again.

    Args:
        task: The scenario, one of ``SCHEDULED``.
        schedule: The schedule.

    Raises:
        CommandLineError: The block has fewer points than the schedule needs.
    """
    arrange: dict[str, Callable[[], Arrangement]] = {
        "shared": lambda: share,
        "replicas": lambda: replicate,
        "nested": lambda: _arrange_nested(task),
        "lazy": lambda: call_first,
        "copies": lambda: copy_while_running,
        "exception": lambda: _arrange_exception(task),
    }
    return replay_schedule(task, arrange[task.scenario](), schedule)
