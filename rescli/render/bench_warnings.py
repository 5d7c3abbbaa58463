"""The sentences for what a reader should know before believing a row of a benchmark."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rescli.bench.result import NO_TIME_TO_COUNT
from rescli.units import format_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rescli.bench.result import BenchWarning, PassResult


@dataclass(frozen=True, slots=True)
class Sentence:
    """A warning in words.

    Args:
        message: What was found.
        hint: The way out.
    """

    message: str
    hint: str


def sentence(warning: BenchWarning) -> Sentence:
    """Put a warning into words.

    Args:
        warning: The code and its facts.

    Example:
        >>> from rescli.bench.result import BenchWarning
        >>> sentence(BenchWarning("one-device", {"device": "cuda:0"})).message
        'DataParallel on cuda:0 alone runs the plain module'
    """
    return _SENTENCES[warning.code](warning.facts)


def said_once(rows: Sequence[PassResult]) -> Iterator[tuple[Sentence, str]]:
    """Give the warnings of a table, each sentence once, with the rows it holds for.

    Args:
        rows: The rows of the table.

    Yields:
        The sentence, and ``forward, step: `` or ``plain: `` to stand before it; nothing if it holds for all.
    """
    holds_for: dict[Sentence, list[PassResult]] = defaultdict(list)
    for row in rows:
        for warning in row.warnings:
            holds_for[sentence(warning)].append(row)
    for words, concerned in holds_for.items():
        yield words, "" if len(concerned) == len(rows) else f"{_names(concerned, rows)}: "


def _names(concerned: Sequence[PassResult], rows: Sequence[PassResult]) -> str:
    names: list[str] = []
    for variant in dict.fromkeys(row.variant for row in concerned):
        passes = [row.pass_name for row in concerned if row.variant == variant]
        every = len(passes) == sum(row.variant == variant for row in rows)
        if every:
            names.append(variant)
        else:
            names += [name if variant == "block" else f"{name} ({variant})" for name in passes]
    return ", ".join(names)


def _failed(facts: Mapping[str, str | int | float]) -> Sentence:
    # torch ends some messages with a hint of its own, which is about another program.
    reason = str(facts["message"]).partition("\n")[0].partition(" Hint: ")[0].rstrip(".")
    return Sentence(
        f"could not be run: {facts['error']}{': ' if reason else ''}{reason}",
        "rescli show names the layer, --input gives the block another input, --passes leaves passes out",
    )


def _no_plain(facts: Mapping[str, str | int | float]) -> Sentence:
    if facts["error"] == "NothingToTakeOutError":
        return Sentence(str(facts["message"]), "--versus TARGET compares it with another block")
    reason = str(facts["message"]).partition("\n")[0].partition(" Hint: ")[0].rstrip(".")
    return Sentence(
        f"without its skips the block cannot be run: {facts['error']}{': ' if reason else ''}{reason}",
        "write the block to compare with as a spec of its own: --versus spec.py:name",
    )


def _out_of_memory(_facts: Mapping[str, str | int | float]) -> Sentence:
    return Sentence("there was not enough memory", "take a smaller --batch-size, or --dtype bfloat16")


def _no_gradient(facts: Mapping[str, str | int | float]) -> Sentence:
    return Sentence(
        f"there is nothing to differentiate: {facts['message']}", "--passes inference,forward leaves it out"
    )


def _no_time(facts: Mapping[str, str | int | float]) -> Sentence:
    return Sentence(
        f"no time was left for a single sample, of {_seconds(facts, 'max_time_s')} for the target",
        "a longer --max-time, or fewer --passes",
    )


def _too_few_samples(facts: Mapping[str, str | int | float]) -> Sentence:
    count = int(facts["samples"])
    return Sentence(
        f"only {count} sample{'' if count == 1 else 's'} in the time allowed, "
        f"{_seconds(facts, 'max_time_s')} for the target; six are needed for an interval",
        f"--max-time {math.ceil(float(facts['enough_s']))}, or fewer --passes",
    )


def _unsteady(_facts: Mapping[str, str | int | float]) -> Sentence:
    return Sentence(
        "the times are unsteady, so the interval is wide",
        "close what else is running, take fewer --threads, or measure longer with --max-time",
    )


def _timer_noise(facts: Mapping[str, str | int | float]) -> Sentence:
    return Sentence(
        f"reading the clock takes {_seconds(facts, 'timer_s')} of each {_seconds(facts, 'median_s')} call",
        "a larger --batch-size makes the call longer",
    )


def _denormal(facts: Mapping[str, str | int | float]) -> Sentence:
    count, places = int(facts["count"]), int(facts["places"])
    elsewhere = f" and {places - 1} more" if places > 1 else ""
    what = "value is" if count == 1 else "values are"
    return Sentence(
        f"{count:,} {what} denormal (in {facts['where']}{elsewhere}): "
        "a CPU computes with them many times slower",
        "torch.set_flush_denormal(True) in the spec rounds them to zero",
    )


def _oversubscribed(facts: Mapping[str, str | int | float]) -> Sentence:
    workers, threads, cores = (int(facts[name]) for name in ("workers", "threads", "cores"))
    at_once = f"{threads} threads" if workers == 1 else f"{workers} workers of {threads} threads"
    return Sentence(
        f"{at_once} share {cores} core{'' if cores == 1 else 's'} and wait for each other",
        f"--threads {max(1, cores // workers)}",
    )


def _one_device(facts: Mapping[str, str | int | float]) -> Sentence:
    return Sentence(
        f"DataParallel on {facts['device']} alone runs the plain module",
        "--devices 0,1 spreads the batch where there are two GPUs",
    )


def _no_channels(_facts: Mapping[str, str | int | float]) -> Sentence:
    return Sentence(
        "--channels-last changes nothing: no input has the four dimensions of images",
        "leave it out, or give such an input with --input",
    )


def _other_inputs(facts: Mapping[str, str | int | float]) -> Sentence:
    return Sentence(
        f"{facts['target']} runs on an input of its own, {facts['shapes']}",
        "--input gives both blocks the same",
    )


def _uncounted(facts: Mapping[str, str | int | float]) -> Sentence:
    in_time = facts["reason"] != NO_TIME_TO_COUNT
    return Sentence(
        f"FLOP/s are not known: {facts['reason']}",
        "rescli show has what can be counted of the forward pass" if in_time else "a longer --max-time",
    )


def _seconds(facts: Mapping[str, str | int | float], name: str) -> str:
    return format_seconds(float(facts[name]))


_SENTENCES: Mapping[str, Callable[[Mapping[str, str | int | float]], Sentence]] = {
    "failed": _failed,
    "no-plain": _no_plain,
    "out-of-memory": _out_of_memory,
    "no-gradient": _no_gradient,
    "no-time": _no_time,
    "too-few-samples": _too_few_samples,
    "unsteady": _unsteady,
    "timer-noise": _timer_noise,
    "denormal": _denormal,
    "oversubscribed": _oversubscribed,
    "one-device": _one_device,
    "no-channels": _no_channels,
    "other-inputs": _other_inputs,
    "uncounted": _uncounted,
}
