"""What ``rescli bench`` does between its command line and its result: target after target, and a baseline."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from rescli.bench.baseline import check_dtype, check_environment, compare_with_baseline
from rescli.bench.result import BenchResult
from rescli.cli.console import write_note
from rescli.cli.errors import show_traceback, write_error
from rescli.cli.exit_codes import ExitCode, exit_code_of
from rescli.cli.targets import for_each_target, noted
from rescli.errors import FileError, SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rescli.bench.baseline import Baseline
    from rescli.bench.failure import Failure
    from rescli.bench.result import Comparison, PassResult
    from rescli.bench.session import Findings
    from rescli.bench.settings import Settings
    from rescli.spec.prepare import PreparedBlock
    from rescli.spec.request import Request


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be measured, how, and what it is held against.

    Args:
        names: The TARGETs.
        request: How their blocks are built and fed.
        how: How they are measured.
        versus: ``none``, ``plain``, or the TARGET that each block is compared with.
        baseline: A saved run to compare with, or None.
        fail_above: How much slower than that, as a share, is too slow.
        force: Whether a baseline of another machine or setting will do.
        words: Gives what this process has said so far, if it is one of a group that does not speak.
    """

    names: Sequence[str]
    request: Request
    how: Settings
    versus: str
    baseline: Baseline | None
    fail_above: float
    force: bool
    words: Callable[[], str] = str


def measure(job: Job, report: Callable[[str], None]) -> tuple[BenchResult, ExitCode]:
    """Measure one target after the other; an interruption keeps what there is.

    Args:
        job: What to measure.
        report: Told what runs now.

    Returns:
        What was found, and the highest exit code that a target or the baseline deserves.

    Raises:
        FileError: The baseline is of another machine or setting.
    """
    from rescli.bench.environment import describe_environment  # noqa: PLC0415 - torch comes with it
    from rescli.bench.session import Findings  # noqa: PLC0415 - torch comes with it
    from rescli.bench.settings import thread_setting  # noqa: PLC0415 - torch comes with it

    findings = Findings()
    with thread_setting(job.how.threads):
        environment = describe_environment()
        if job.baseline is not None and not job.force:
            check_environment(job.baseline, environment)
        codes = _run_targets(job, findings, report)
    comparisons = list(findings.comparisons)
    if job.baseline is not None:
        found = list(
            compare_with_baseline(
                job.baseline, findings.rows, job.fail_above, forced=job.force, seed=job.how.seed
            )
        )
        comparisons += found
        codes.append(_judge_baseline(job.baseline, found, findings))
    code = max(codes)
    interrupted = code == ExitCode.INTERRUPTED
    return BenchResult(environment, tuple(findings.rows), tuple(comparisons), interrupted), code


def _run_targets(job: Job, findings: Findings, report: Callable[[str], None]) -> list[ExitCode]:
    from rescli.bench.match import match_blocks  # noqa: PLC0415 - torch comes with it
    from rescli.bench.session import bench_blocks  # noqa: PLC0415 - torch comes with it

    codes = [ExitCode.DONE]
    others: tuple[PreparedBlock, ...] = ()
    try:
        if job.versus not in ("none", "plain"):
            report(f"{job.versus}: loading")
            prepared = for_each_target((job.versus,), job.request, lambda block: block)
            if prepared.code:
                return [prepared.code]
            others = prepared.results
        for place, name in enumerate(job.names):
            report(f"{name}: loading")
            prepared = for_each_target((name,), job.request, lambda block: block)
            codes.append(prepared.code)
            if prepared.code == ExitCode.INTERRUPTED:
                break
            count = f"[{place + 1}/{len(job.names)}]" if len(job.names) > 1 else ""
            first = len(findings.rows)
            with noted(codes):
                _check_alike(name, prepared.results, job)
                matches = match_blocks(
                    prepared.results, job.versus, others, single=job.how.modes.parallel != "none"
                )
                _check_dtypes(job, prepared.results)
                # What a block prints would end up in the middle of the result.
                with contextlib.redirect_stdout(sys.stderr):
                    bench_blocks(matches, job.how, findings, report=partial(_report_place, report, count))
            codes.extend(_complain(findings.rows[first:]))
    except KeyboardInterrupt:
        codes.append(ExitCode.INTERRUPTED)
    return codes


def _check_alike(name: str, blocks: Sequence[PreparedBlock], job: Job) -> None:
    """Refuse a target that is another one in each process of a group: they would wait for each other forever."""
    if job.how.peers is None:
        return
    found = job.how.peers.exchange(([block.target for block in blocks], job.words()))
    first, _ = found[0]
    others = [(rank, words) for rank, (targets, words) in enumerate(found) if targets != first]
    if others:
        rank, words = others[0]
        raise SpecError(
            f"{name} is not the same in all {len(found)} processes{f'; process {rank} says:' if words else ''}",
            hint="what a spec builds must not depend on the process",
            details=words,
        )


def _check_dtypes(job: Job, blocks: Sequence[PreparedBlock]) -> None:
    from rescli.bench.describe import dtype_of  # noqa: PLC0415 - torch comes with it

    if job.baseline is not None and not job.force:
        for block in blocks:
            check_dtype(job.baseline, block.target, dtype_of(block))


def _judge_baseline(baseline: Baseline, comparisons: Sequence[Comparison], findings: Findings) -> ExitCode:
    if any(one.is_regression for one in comparisons):
        return ExitCode.CHECK_FAILED
    if not comparisons and any(row.samples_s for row in findings.rows):
        error = FileError(
            f"--baseline {baseline.file} holds none of what was measured",
            hint="the same targets, --passes, --batch-size and modes as when it was saved",
        )
        write_error(error)
        return exit_code_of(error)
    return ExitCode.DONE


def tell_of_the_baseline(result: BenchResult, percent: float) -> None:
    """Say what the comparison with a saved run came to, on stderr.

    Args:
        result: What was found.
        percent: How much slower was allowed.
    """
    found = [one for one in result.comparisons if one.kind == "baseline"]
    slower = [one for one in found if one.is_regression]
    for one in slower:
        write_note(
            f"Regression: {one.pass_name} of {one.b}, batch {one.batch_size}, takes {one.ratio:.3f} times as long "
            f"as in {one.a}; allowed are {1 + percent / 100:.3f}."
        )
    missing = sum(bool(row.samples_s) for row in result.results) - len(found)
    if found and missing:
        write_note(f"{missing} row{'' if missing == 1 else 's'} of this run are not in the baseline.")


def _report_place(report: Callable[[str], None], count: str, text: str) -> None:
    report(f"{count} {text}".lstrip())


def _complain(rows: Sequence[PassResult]) -> Iterator[ExitCode]:
    """Tell of the blocks of which nothing could be measured because they cannot be run."""
    for target in dict.fromkeys(row.target for row in rows):
        of_target = [row for row in rows if row.target == target]
        failures = _failures_of(of_target)
        if failures:
            failure = failures[0]
            last_line = f"{failure.error}: {failure.message}"
            part = f"{failure.trace}{last_line}\n{failure.place}"
            write_error(
                SpecError(
                    f"{target} could not be run",
                    details=failure.whole_trace if show_traceback.get() else part,
                    hint=f"rescli show {target} names the layer, and --input gives the block another input",
                )
            )
            yield ExitCode.SPEC


def without_complaints(result: BenchResult) -> BenchResult:
    """Leave out the rows of blocks that could not be run at all, where an error has just said so.

    Args:
        result: What was found.
    """
    told = {
        target
        for target in {row.target for row in result.results}
        if _failures_of([row for row in result.results if row.target == target])
    }
    rows = tuple(row for row in result.results if row.target not in told)
    return replace(result, results=rows)


def _failures_of(rows: Sequence[PassResult]) -> list[Failure]:
    """Give why a block could not be run, if nothing could be measured of it."""
    failures = [row.failure for row in rows if row.failure and row.failure.code == "failed"]
    return [] if any(row.samples_s for row in rows) else failures
