"""A benchmark from Python: a module that is there already, instead of a TARGET."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from rescli.bench.environment import describe_environment
from rescli.bench.modes import Modes
from rescli.bench.result import PASSES, BenchResult
from rescli.bench.session import Findings, bench_blocks
from rescli.bench.settings import Settings, thread_setting
from rescli.bench.variant import PLAIN, Match
from rescli.errors import CommandLineError
from rescli.spec.inputs import example_input
from rescli.spec.prepare import PreparedBlock
from rescli.spec.request import Request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rescli.bench.result import PassName


def bench_module(  # noqa: PLR0913 - the options of the command
    module: nn.Module,
    inputs: Tensor | Sequence[Tensor] | None = None,
    *,
    versus: nn.Module | str | None = None,
    passes: Sequence[str] = PASSES,
    batch_sizes: Sequence[int] = (),
    amp: bool = False,
    compiled: bool = False,
    channels_last: bool = False,
    threads: int | None = None,
    min_time_s: float = 0.5,
    max_time_s: float = 10.0,
    seed: int = 0,
    batch_dim: int | None = None,
) -> BenchResult:
    """Measure a module; see :func:`rescli.benchmark`."""
    wanted = _checked_passes(passes)
    block = _prepared(module, inputs, seed, batch_dim)
    settings = Settings(
        devices=(_device_of(module),),
        passes=wanted,
        batch_sizes=tuple(batch_sizes),
        modes=Modes(amp, compiled, channels_last),
        threads=threads,
        min_time_s=min_time_s,
        max_time_s=max_time_s,
        seed=seed,
    )
    findings = Findings()
    with thread_setting(threads):
        environment = describe_environment()
        bench_blocks([_match(block, versus)], settings, findings)
    return BenchResult(environment, tuple(findings.rows), tuple(findings.comparisons))


def _match(block: PreparedBlock, versus: nn.Module | str | None) -> Match:
    if isinstance(versus, nn.Module):
        return Match(block, versus=_named(versus, block.inputs, block.batch_dim))
    if versus not in (None, "none", PLAIN):
        raise CommandLineError(
            f"versus={versus!r} is neither a module nor 'plain'", hint="versus='plain' takes the skips out"
        )
    return Match(block, plain=versus == PLAIN)


def _prepared(
    module: nn.Module, inputs: Tensor | Sequence[Tensor] | None, seed: int, batch_dim: int | None
) -> PreparedBlock:
    if inputs is None:
        example = example_input(module, type(module).__name__, None, Request(seed=seed))
        tensors = tuple(tensor.to(_device_of(module)) for tensor in example.tensors)
        return _named(module, tensors, example.batch_dim if batch_dim is None else batch_dim)
    tensors = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    return _named(module, tensors, batch_dim or 0)


def _named(module: nn.Module, inputs: tuple[Tensor, ...], batch_dim: int) -> PreparedBlock:
    kind = type(module)
    return PreparedBlock(
        name=kind.__name__,
        target=f"{kind.__module__}:{kind.__qualname__}",
        module=module,
        inputs=inputs,
        origin="option",
        spec_file=None,
        batch_dim=batch_dim,
    )


def _device_of(module: nn.Module) -> torch.device:
    tensors = (*module.parameters(), *module.buffers())
    return tensors[0].device if tensors else torch.device("cpu")


def _checked_passes(passes: Sequence[str]) -> tuple[PassName, ...]:
    unknown = [name for name in passes if name not in PASSES]
    if unknown or not passes or isinstance(passes, str):
        raise CommandLineError(
            f"passes={passes!r}: expected names of passes", hint=f"among {', '.join(PASSES)}"
        )
    return tuple(name for name in PASSES if name in passes)
