"""See, benchmark and thread-test residual networks written with Record and Apply."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor, nn

    from rescli.bench.result import BenchResult
    from rescli.graph.inspected import InspectedGraph
    from rescli.threads.result import ThreadsResult

__version__ = "0.1.0"
__all__ = ["__version__", "benchmark", "check_threads", "inspect"]


def benchmark(  # noqa: PLR0913 - the options of the command
    module: nn.Module,
    inputs: Tensor | Sequence[Tensor] | None = None,
    *,
    versus: nn.Module | str | None = None,
    passes: Sequence[str] = ("inference", "forward", "backward", "step"),
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
    """Measure how long the passes of a module take, as ``rescli bench`` does.

    Only copies of the module run, on the device that it is on; it is left as it is. docs/BENCH.md says how it is
    measured and what the results mean.

    Args:
        module: Any module of any library.
        inputs: What its forward takes: a tensor, or several. None has them worked out from its first layers.
        versus: What is measured in turns with it and compared: another module, which gets the same input, or
            ``"plain"`` for this one without its Records and Applies.
        passes: Which passes to measure.
        batch_sizes: Sizes of the batch, each measured on its own; empty for that of the inputs.
        amp: Whether it runs under autocast.
        compiled: Whether it runs through ``torch.compile``.
        channels_last: Whether weights and images are laid out channels last.
        threads: Threads that one operation may use on the CPU; None leaves PyTorch's setting.
        min_time_s: Least sampling time.
        max_time_s: Most time for everything.
        seed: Decides dropout, the order of the turns, and input values where they are worked out.
        batch_dim: The dimension of the inputs that counts the items of the batch; None for the first, or what
            the layers tell where they are asked for the inputs.

    Returns:
        The environment, a row for each pass, and the comparisons. A pass that cannot be run is a row with a
        warning, never an exception.

    Raises:
        CommandLineError: There is no such pass, or ``versus`` is neither a module nor ``"plain"``.
        SpecError: No input was given, and the layers tell none.

    Example:
        >>> import torch
        >>> import rescli
        >>> found = rescli.benchmark(torch.nn.Linear(4, 4), passes=["inference"], min_time_s=0)
        >>> row = found.results[0]
        >>> row.pass_name, row.batch_size, row.flops, row.peak_memory_bytes
        ('inference', 8, 256, 128)
    """
    from rescli.bench.api import bench_module  # noqa: PLC0415 - torch comes with it

    return bench_module(
        module,
        inputs,
        versus=versus,
        passes=passes,
        batch_sizes=batch_sizes,
        amp=amp,
        compiled=compiled,
        channels_last=channels_last,
        threads=threads,
        min_time_s=min_time_s,
        max_time_s=max_time_s,
        seed=seed,
        batch_dim=batch_dim,
    )


def check_threads(  # noqa: PLR0913 - the options of the command
    module: nn.Module,
    inputs: Tensor | Sequence[Tensor] | None = None,
    *,
    scenarios: Sequence[str] | None = None,
    threads: int | None = None,
    iterations: int = 50,
    preemptions: int = 2,
    schedules: int = 150,
    random_schedules: int = 20,
    lines: bool = True,
    max_time_s: float | None = None,
    seed: int = 0,
    batch_dim: int | None = None,
    replay: str | None = None,
) -> tuple[ThreadsResult, ...]:
    """Test whether a module may be called from several threads, as ``rescli check-threads`` does.

    Only copies of the module run; it is left as it is. docs/THREADS.md says what the results mean.

    Args:
        module: Any module of any library.
        inputs: What its forward takes: a tensor, or several. None has them worked out from its first layers.
        scenarios: The situations to try; None for all of them.
        threads: Threads of each scenario, 2 to 8; None for 2 or, where many are wanted, 4.
        iterations: Calls of each thread that runs freely.
        preemptions: The most times that one schedule interrupts a thread.
        schedules: The most schedules of one scenario.
        random_schedules: The most random ones beyond that.
        lines: Whether threads hand over between source lines as well, where layers show nothing.
        max_time_s: Seconds for all scenarios together; None for 8, and up to 120 where the first few schedules of
            each scenario take longer.
        seed: Decides input values, random numbers in the module, and which schedules are tried.
        batch_dim: The dimension of the inputs that counts the items of the batch; None for the first, or what
            the layers tell where they are asked for the inputs.
        replay: The only schedule to run, as a failure gave it in ``result.schedule``.

    Returns:
        A result for each scenario: ``result.status`` is ``pass``, ``fail``, ``warn`` or ``skip``,
        ``result.detail`` says why.

    Raises:
        CommandLineError: There is no such scenario or schedule.
        SpecError: No input was given, and the layers tell none.
        Exception: Whatever the module raises in a single thread too.

    Example:
        >>> import torch
        >>> import rescli
        >>> (found,) = rescli.check_threads(torch.nn.Linear(4, 4), scenarios=["state"])
        >>> found.status, found.detail
        ('pass', '2 forwards in 1 thread left everything on the module as it was')
    """
    from rescli.threads.api import check_module  # noqa: PLC0415 - torch comes with it

    return check_module(
        module,
        inputs,
        scenarios=scenarios,
        threads=threads,
        iterations=iterations,
        preemptions=preemptions,
        schedules=schedules,
        random_schedules=random_schedules,
        lines=lines,
        max_time_s=max_time_s,
        seed=seed,
        batch_dim=batch_dim,
        replay=replay,
    )


def inspect(module: nn.Module, example_input: Tensor | Sequence[object] | None = None) -> InspectedGraph:
    """Look at a module as ``rescli show`` does.

    A copy of the module runs once, without gradients and in evaluation mode; the module itself, its mode, hooks,
    gradients and devices stay as they are, and so do the random number generators. docs/SHOW.md explains the
    picture.

    Args:
        module: Any module of any library. Skips are seen where Records and Applies make them.
        example_input: What its forward takes: a tensor, or a tuple of several arguments. None has them worked
            out from its first layers.

    Returns:
        The facts, as ``rescli show --format json`` has them: ``layers``, ``edges``, ``parameters``, ``flops``,
        ``diagnostics`` and more. Printed, or as the value of a cell or a line at the prompt, they show themselves
        as the picture of ``rescli show``. Of a module that raises there is all up to the layer that did, with
        ``failure`` set.

    Raises:
        CommandLineError: The first argument is no module, or the second is nothing that forward could take.
        SpecError: No input was given, and the layers tell none; or the module cannot be copied.

    Example:
        >>> import torch
        >>> import rescli
        >>> graph = rescli.inspect(torch.nn.Linear(4, 2), torch.ones(3, 4))
        >>> graph.parameters, graph.flops, graph.layers[0].output_shape
        (10, 48, (3, 2))
        >>> graph
        Linear  Linear
        input   (3, 4) float32 as given
        output  (3, 2) float32
        <BLANKLINE>
            #  layer       output  params  FLOPs
         ○  0  Linear 4→2  (3, 2)      10     48
        <BLANKLINE>
        10 parameters, 48 FLOPs, 0 skips
    """
    from rescli.graph.inspected import inspect_module  # noqa: PLC0415 - torch comes with it

    return inspect_module(module, example_input)
