"""The scenarios of a block, one after the other, each with its share of the time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rescli.threads.copies import IncomparableError, in_each_mode, refuse_compiled
from rescli.threads.cutting import cut_block
from rescli.threads.inputs import equal_inputs, varied_inputs
from rescli.threads.limits import TIME_PARTS
from rescli.threads.outcome import call, compared_parameters
from rescli.threads.situations import RUN, run_again
from rescli.threads.surroundings import quiet_process
from rescli.threads.task import Notes, Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torch import Tensor, nn

    from rescli.threads.footing import Footing
    from rescli.threads.inputs import Block
    from rescli.threads.limits import Limits
    from rescli.threads.result import ThreadsResult
    from rescli.threads.schedule import Schedule


class SingleThreadError(Exception):
    """The block cannot even be called by a single thread; its cause is what was raised."""


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
    start = clock()
    end = start + limits.end_s
    reason, notes = "", Notes()
    known: dict[str, Footing] = {}
    inputs: tuple[tuple[Tensor, ...], ...] = ()
    with quiet_process():
        try:
            refuse_compiled(block.module)
            block, cut = cut_block(block)
            notes = Notes(cut, _of_gradients(block.module))
            threads = max(limits.threads, limits.many_threads) if replay is None else replay.threads
            inputs = _usable_inputs(block, threads, limits.seed)
        except IncomparableError as error:
            reason = str(error)
    for index, scenario in enumerate(scenarios):
        now = clock()
        parts = [TIME_PARTS.get(name, 1) for name in scenarios[index:]]
        deadline = now + max(0.0, start + limits.time_s - now) * parts[0] / sum(parts)
        task = Task(block, inputs, scenario, limits, deadline, end, clock, say, known, notes)
        late = index > 0 and now >= end
        if reason or late:
            yield task.result(("skip", reason or "the time was up (--max-time)"), {})
            continue
        say(f"{block.name}: {scenario}")
        # Not around the yield: what is put back must be back when the caller goes on.
        with quiet_process():
            try:
                result = RUN[scenario](task) if replay is None else run_again(task, replay)
            except IncomparableError as error:
                result = task.result(("skip", str(error)), {})
        yield result


def _of_gradients(module: nn.Module) -> str:
    compared, every = compared_parameters(module)
    if len(compared) == every:
        return ""
    return f"gradients compared by the inputs and by {len(compared):,} of {every:,} parameters, not by the largest"


def _usable_inputs(block: Block, threads: int, seed: int) -> tuple[tuple[Tensor, ...], ...]:
    """Give each thread an input that the block takes from a thread that is alone."""
    inputs: tuple[tuple[Tensor, ...], ...] = ()
    raised: list[Exception] = []
    for make in (varied_inputs, equal_inputs):
        inputs = make(block, threads, seed)
        # A batch size that is fixed shows in the second; the others only differ from it by more of the same.
        raised = [error for own in inputs[:2] if (error := _first_error(block.module, own)) is not None]
        if not raised:
            return inputs
    if len(raised) == 1:
        # Not all threads raise: the scenarios tell which one does, and compare the others.
        return inputs
    raise SingleThreadError from raised[0]


def _first_error(module: nn.Module, inputs: tuple[Tensor, ...]) -> Exception | None:
    """Give what the block raises in a single thread, unless there is a mode in which it raises nothing."""
    raised: Exception | None = None
    for copied in in_each_mode(module):
        try:
            call(copied, inputs)
        except Exception as error:  # noqa: BLE001, PERF203 - whatever is raised is reported; there are two modes at most
            raised = raised or error
        else:
            return None
    return raised
