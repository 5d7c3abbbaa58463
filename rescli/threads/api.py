"""The check for Python programs: a module and its inputs instead of a TARGET."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from rescli.errors import CommandLineError
from rescli.spec.inputs import example_input
from rescli.spec.request import Request
from rescli.threads.inputs import GivenBlock
from rescli.threads.limits import SCENARIOS, Limits
from rescli.threads.scenarios import SingleThreadError, check_block
from rescli.threads.schedule import MAX_THREADS, parse_schedule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor, nn

    from rescli.threads.result import ThreadsResult
    from rescli.threads.schedule import Schedule

_DEFAULTS = Limits()


def check_module(  # noqa: PLR0913 - the options of the command
    module: nn.Module,
    inputs: Tensor | Sequence[Tensor] | None,
    *,
    scenarios: Sequence[str] | None,
    threads: int | None,
    iterations: int,
    preemptions: int,
    schedules: int,
    random_schedules: int,
    lines: bool,
    max_time_s: float | None,
    seed: int,
    batch_dim: int | None,
    replay: str | None,
) -> tuple[ThreadsResult, ...]:
    """Do what ``rescli.check_threads`` promises; see there."""
    names = tuple(SCENARIOS if scenarios is None else scenarios)
    for name in names:
        if name not in SCENARIOS:
            raise CommandLineError(f"there is no scenario {name!r}", hint=f"one of {', '.join(SCENARIOS)}")
    if threads is not None and not 2 <= threads <= MAX_THREADS:
        raise CommandLineError(f"threads={threads}: there can be 2 to {MAX_THREADS}")
    limits = Limits(
        threads=threads or _DEFAULTS.threads,
        many_threads=threads or _DEFAULTS.many_threads,
        iterations=iterations,
        preemptions=preemptions,
        schedules=schedules,
        random_schedules=random_schedules,
        lines=lines,
        max_time_s=max_time_s,
        seed=seed,
    )
    block = _block_of(module, inputs, batch_dim, seed)
    if replay is None:
        return _checked(block, names, limits, None)
    name, schedule = parse_schedule(replay, f"replay={replay!r}")
    limits = replace(limits, threads=schedule.threads, many_threads=schedule.threads)
    return _checked(block, (name,), limits, schedule)


def _checked(
    block: GivenBlock, names: Sequence[str], limits: Limits, replay: Schedule | None
) -> tuple[ThreadsResult, ...]:
    try:
        return tuple(check_block(block, names, limits, replay=replay))
    except SingleThreadError as error:
        # The caller gets what the module raises, as from a call of it.
        raise (error.__cause__ or error) from None


def _block_of(
    module: nn.Module, inputs: Tensor | Sequence[Tensor] | None, batch_dim: int | None, seed: int
) -> GivenBlock:
    name = type(module).__name__
    if inputs is not None:
        given = (inputs,) if isinstance(inputs, torch.Tensor) else tuple(inputs)
        return GivenBlock(module, given, batch_dim or 0, name, name)
    example = example_input(module, name, None, Request(seed=seed))
    dim = example.batch_dim if batch_dim is None else batch_dim
    return GivenBlock(module, example.tensors, dim, name, name)
