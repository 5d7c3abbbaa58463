"""What a benchmark found, as frozen facts; the field names are those of the JSON document."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rescli.bench.failure import Failure

PassName = Literal["inference", "forward", "backward", "step"]
PASSES: tuple[PassName, ...] = get_args(PassName)

Verdict = Literal["faster", "slower", "same", "inconclusive"]

WarningCode = Literal[
    "failed",
    "no-plain",
    "out-of-memory",
    "no-gradient",
    "no-time",
    "too-few-samples",
    "unsteady",
    "timer-noise",
    "denormal",
    "oversubscribed",
    "one-device",
    "no-channels",
    "other-inputs",
    "uncounted",
]

# The reason of an ``uncounted`` warning that a longer run takes away.
NO_TIME_TO_COUNT = "no time was left to count them"


@dataclass(frozen=True, slots=True)
class BenchWarning:
    """Something a reader should know before believing a row.

    Args:
        code: Which kind; the sentence for it is chosen where it is shown.
        facts: The numbers and names that belong into that sentence.
    """

    code: WarningCode
    facts: Mapping[str, str | int | float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Statistics:
    """What the samples of one row say about the time of one call.

    Args:
        median_s: Median of the samples.
        iqr_s: Distance between the quartiles.
        min_s: The fastest sample.
        ci95_s: Interval that holds the true median with 95% confidence; None below six samples.
        p95_s: 95th percentile; None below sixty samples.
    """

    median_s: float
    iqr_s: float
    min_s: float
    ci95_s: tuple[float, float] | None
    p95_s: float | None


@dataclass(frozen=True, slots=True)
class PassResult:
    """One row: one pass of one block at one batch size.

    Args:
        name: The block's variable or function.
        target: Where the block comes from, as ``specs/basic.py:block``.
        variant: Which form of the block ran: ``block`` is the block as the spec wrote it, ``plain`` the same
            without its skips, ``versus`` the block that it is compared with, ``single`` the block on one device
            in one process, beside one that is spread over several.
        device: Where it ran; several devices are joined by commas.
        parallel: ``none``, ``dp`` for ``nn.DataParallel`` or ``ddp`` for ``DistributedDataParallel``.
        dtype: Floating point type of the block.
        autocast_dtype: Type that autocast computes in; None without ``--amp``.
        compiled: Whether ``torch.compile`` made it.
        channels_last: Whether weights and inputs lie channels last.
        commit: Commit of the repository that the spec lies in, with ``+`` if there are changes; None if unknown.
        batch_size: Items in the batch, over all devices and processes.
        workers: How many devices or processes share a batch.
        pass_name: Which pass was timed.
        samples_s: Time of one call, a value for each sample, in the order they were taken.
        iterations: Calls that one sample averages over; 0 if none was taken.
        statistics: What the samples say, or None without samples.
        wall_median_s: Median time on the host's clock where the times above are a device's own; else None.
        throughput_per_s: Batch items a second, from the median.
        first_call_s: Time of the very first call, which belongs to no sample.
        compile_s: What of it a usual call does not take, if the block was compiled; else None.
        peak_memory_bytes: Most memory taken at once beyond what block and input take; None = unknown.
        retained_bytes: Memory still taken when outputs and gradients are gone; None = unknown.
        flops: Floating point operations of this pass; None unless every one of them was counted.
        flops_per_s: These over the median.
        flops_share: That over the rate of a large matrix product on this machine, in this run and in this
            type; None if unknown.
        warnings: What to know before believing the row.
        failure: Why the pass was not run to its end, if something went wrong; also told as a warning.
    """

    name: str
    target: str
    variant: str
    device: str
    parallel: str
    dtype: str
    batch_size: int
    pass_name: PassName
    workers: int = 1
    autocast_dtype: str | None = None
    compiled: bool = False
    channels_last: bool = False
    commit: str | None = None
    samples_s: tuple[float, ...] = ()
    iterations: int = 0
    statistics: Statistics | None = None
    wall_median_s: float | None = None
    throughput_per_s: float | None = None
    first_call_s: float | None = None
    compile_s: float | None = None
    peak_memory_bytes: int | None = None
    retained_bytes: int | None = None
    flops: int | None = None
    flops_per_s: float | None = None
    flops_share: float | None = None
    warnings: tuple[BenchWarning, ...] = ()
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two rows of the same pass, and which of them is faster.

    Args:
        a: What it is compared with: the TARGET under ``--versus``, under ``--baseline`` the one of the file.
        b: What is compared: under ``--versus`` the plain block or the other TARGET; under ``--baseline`` the
            TARGET as it is now; under ``--parallel`` the TARGET on one device in one process.
        kind: Which of the options asked for it; ``scaling`` is ``--parallel``.
        name: The block's variable or function.
        device: Where both ran.
        dtype: Floating point type of the block.
        pass_name: Which pass was timed.
        batch_size: Items in the batch.
        ratio: Time of b over time of a.
        ci95: Interval that holds the true ratio with 95% confidence; None below six samples.
        verdict: What that says of b against a.
        margin: How far from one the whole interval had to lie for that.
        paired: Whether the samples were taken side by side.
        pairs: How many pairs there are; None if unpaired.
        variant: Which form of the block b is, as in its row.
        workers: Under ``--parallel`` how many devices or processes shared the batch in a; else None.
    """

    a: str
    b: str
    kind: Literal["versus", "baseline", "scaling"]
    name: str
    device: str
    dtype: str
    pass_name: PassName
    batch_size: int
    ratio: float
    ci95: tuple[float, float] | None
    verdict: Verdict
    margin: float
    paired: bool
    pairs: int | None = None
    variant: str = "block"
    workers: int | None = None

    @property
    def efficiency(self) -> float | None:
        """Under ``--parallel`` the speed-up, which is the ratio, over the number of workers."""
        return None if self.workers is None else self.ratio / self.workers

    @property
    def is_regression(self) -> bool:
        """Whether it is slower than a baseline by more than was allowed."""
        return self.kind == "baseline" and self.verdict == "slower"


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU of this machine."""

    index: int
    name: str
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Environment:
    """The machine and the software that the times belong to.

    Args:
        rescli: Version of this program.
        python: Version of the interpreter.
        torch: Version of PyTorch with its build.
        system: Operating system and its release.
        cpu: Model name of the processor.
        cores: Logical cores that this process may use.
        threads: Threads that one PyTorch operation may use.
        interop_threads: Threads for independent operations.
        gpus: The GPUs that PyTorch sees.
        cuda: CUDA version PyTorch was built for; None without.
        driver: Version of the GPU driver, where it can be read.
        governor: How Linux chooses the clock rate of the first core, where it can be read.
    """

    rescli: str
    python: str
    torch: str
    system: str
    cpu: str
    cores: int
    threads: int
    interop_threads: int
    gpus: tuple[Gpu, ...]
    cuda: str | None
    driver: str | None
    governor: str | None = None


@dataclass(frozen=True, slots=True)
class BenchResult:
    """Everything one run of ``rescli bench`` found.

    Args:
        environment: What it ran on.
        results: The rows, in the order of the targets.
        comparisons: Which of two rows is faster, in the same order.
        interrupted: Whether the run was stopped before it was done.
    """

    environment: Environment
    results: tuple[PassResult, ...]
    comparisons: tuple[Comparison, ...] = ()
    interrupted: bool = False
