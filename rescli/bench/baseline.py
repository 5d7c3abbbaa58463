"""A run that was saved, and what a later run is held against.

Samples of two runs are not pairs: between them lie hours, and perhaps another machine. So a baseline is refused
where the machine or the setting differs, and a difference counts only beyond a threshold.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rescli.bench.compare import judge, unpaired_ratio
from rescli.bench.result import Comparison
from rescli.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from rescli.bench.result import Environment, PassResult

SCHEMA = "rescli.bench/1"
# Where the samples stand in a saved row.
SAMPLES = "samples_s"
# What says that two rows are of the same thing, besides their type.
_KEY = (
    "target", "variant", "device", "parallel", "workers", "autocast_dtype", "compiled", "channels_last", "batch_size",
    "pass",
)  # fmt: skip
_FORCE = "--force compares all the same"


@dataclass(frozen=True, slots=True)
class BaselineRow:
    """A row of a saved run.

    Args:
        key: What was measured, without its type.
        dtype: Floating point type of the block.
        samples_s: Time of one call, a value for each sample.
    """

    key: tuple[object, ...]
    dtype: str
    samples_s: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Baseline:
    """A saved run.

    Args:
        file: Where it was read from.
        environment: The machine and the software, by the names of the JSON document.
        rows: Its rows, those without samples left out.
    """

    file: str
    environment: Mapping[str, object]
    rows: tuple[BaselineRow, ...]


def read_baseline(path: Path) -> Baseline:
    """Read what ``--save`` has written.

    Args:
        path: The file.

    Raises:
        FileError: It cannot be read, or is something else.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise FileError(
            f"cannot read --baseline {path}: {reason}", hint=f"--save {path} writes it"
        ) from error
    except ValueError as error:  # no JSON, or no text
        raise FileError(
            f"--baseline {path} is no JSON document", hint="name a file that --save wrote"
        ) from error
    try:
        return _baseline(str(path), document)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise FileError(
            f"--baseline {path} is no saved benchmark (expected schema {SCHEMA} with samples)",
            hint="name a file that --save wrote; --format json leaves the samples out",
        ) from error


def _baseline(file: str, document: Any) -> Baseline:  # noqa: ANN401 - JSON is what it is
    if document["schema"] != SCHEMA:
        raise ValueError(document["schema"])
    rows = [
        BaselineRow(
            key=tuple(row[name] for name in _KEY),
            dtype=row["dtype"],
            samples_s=tuple(float(sample) for sample in row[SAMPLES]),
        )
        for row in document["results"]
    ]
    if any(sample <= 0 for row in rows for sample in row.samples_s):
        raise ValueError(SAMPLES)
    return Baseline(file, dict(document["environment"]), tuple(row for row in rows if row.samples_s))


def check_environment(baseline: Baseline, environment: Environment) -> None:
    """Refuse a baseline of another machine or setting.

    Args:
        baseline: What was saved.
        environment: What there is now.

    Raises:
        FileError: CPU, GPUs, PyTorch or threads differ; all that do are named.
    """
    here = {
        "cpu": environment.cpu,
        "gpus": [gpu.name for gpu in environment.gpus],
        "torch": environment.torch,
        "threads": environment.threads,
    }
    there = dict(baseline.environment)
    gpus = there.get("gpus")
    there["gpus"] = [gpu["name"] for gpu in gpus] if isinstance(gpus, list) else gpus
    differences = [
        f"{name} was {_shown(there.get(name))} and is {_shown(value)}"
        for name, value in here.items()
        if there.get(name) != value
    ]
    if differences:
        raise FileError(
            f"--baseline {baseline.file} does not match this run: {'; '.join(differences)}",
            hint=f"save a baseline here with --save, or {_FORCE}",
        )


def check_dtype(baseline: Baseline, target: str, dtype: str) -> None:
    """Refuse a baseline in which a block has another type.

    Args:
        baseline: What was saved.
        target: The block.
        dtype: Its floating point type now.

    Raises:
        FileError: The baseline has the block, and in other types only.
    """
    place = _KEY.index("target")
    saved = sorted({row.dtype for row in baseline.rows if row.key[place] == target})
    if saved and dtype not in saved:
        raise FileError(
            f"--baseline {baseline.file} does not match this run: dtype of {target} was {', '.join(saved)} "
            f"and is {dtype}",
            hint=f"--dtype {saved[0]} measures what was saved; {_FORCE}",
        )


def compare_with_baseline(
    baseline: Baseline, rows: Sequence[PassResult], fail_above: float, *, forced: bool = False, seed: int = 0
) -> Iterator[Comparison]:
    """Hold rows against those of a saved run.

    Args:
        baseline: What was saved: the a of each comparison.
        rows: What was measured now: the b.
        fail_above: How much slower, as a share, is still the same.
        forced: Whether a row may be compared with one of another type.
        seed: Decides the resamples.
    """
    for row in rows:
        saved = _find(baseline, row, forced=forced)
        times = [sample for sample in row.samples_s if sample > 0]
        if saved is None or not times:
            continue
        ratio = unpaired_ratio(saved.samples_s, times, seed=seed)
        yield Comparison(
            a=baseline.file,
            b=row.target,
            kind="baseline",
            name=row.name,
            device=row.device,
            dtype=row.dtype,
            pass_name=row.pass_name,
            batch_size=row.batch_size,
            ratio=ratio.ratio,
            ci95=ratio.ci95,
            verdict=judge(ratio, fail_above),
            margin=fail_above,
            paired=False,
            variant=row.variant,
        )


def _find(baseline: Baseline, row: PassResult, *, forced: bool) -> BaselineRow | None:
    names = ("pass_name" if name == "pass" else name for name in _KEY)
    key = tuple(getattr(row, name) for name in names)
    found = [saved for saved in baseline.rows if saved.key == key]
    of_type = [saved for saved in found if saved.dtype == row.dtype]
    return next(iter(of_type or (found if forced else [])), None)


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "unknown" if value is None else str(value)
