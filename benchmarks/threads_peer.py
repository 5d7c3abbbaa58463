"""Check the published torchresidual 0.1.0 and the one of this checkout with threads, each in a process of its own.

Usage: python benchmarks/threads_peer.py --peer FOLDER

FOLDER holds the published package, for instance from
`pip install --no-deps --target FOLDER torchresidual==0.1.0`; it is never installed beside ours, as both have the
same name. The same blocks are built from either; the published ones are expected to fail in the scenarios shared,
replicas and copies, ours to pass all. The exit code is 1 if that is not so.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
MUST_FAIL = ("shared", "replicas", "copies")
SCENARIOS = (*MUST_FAIL, "nested", "lazy", "exception", "stress")


def main() -> int:
    """Run both and compare; or, as a child, run one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--peer", type=Path, required=True, metavar="FOLDER", help="holds torchresidual/")
    parser.add_argument("--max-time", type=float, default=30.0, help="seconds for each block")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(list(check(arguments.peer, arguments.max_time))))
        return 0
    if not (arguments.peer / "torchresidual" / "__init__.py").is_file():
        parser.error(f"{arguments.peer} holds no torchresidual/")
    wrong = 0
    for folder, expected in ((arguments.peer, "fail"), (ROOT, "pass")):
        print(f"torchresidual of {folder}")
        for row in run_child(folder, arguments.max_time):
            as_expected = row["scenario"] not in MUST_FAIL or row["status"] == expected
            as_expected = as_expected and (expected == "fail" or row["status"] in ("pass", "skip"))
            wrong += not as_expected
            counts = f"{row['wrong']:>4} of {row['runs']:>4} wrong"
            doubt = "" if as_expected else f"   NOT AS EXPECTED: {row['detail']}"
            print(f"  {row['block']:<10} {row['scenario']:<10} {row['status']:<5} {counts}{doubt}")
    print(f"{wrong} not as expected" if wrong else "as expected")
    return 1 if wrong else 0


def run_child(folder: Path, max_time: float) -> list[dict[str, object]]:
    """Check the blocks of the torchresidual in one folder, in a process that finds it first."""
    command = [sys.executable, __file__, "--peer", str(folder), "--max-time", str(max_time), "--child"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(folder), str(ROOT)))}
    done = subprocess.run(  # noqa: S603 - this very script
        command, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    rows: list[dict[str, object]] = json.loads(done.stdout)
    return rows


def check(folder: Path, max_time: float) -> Iterator[dict[str, object]]:
    """Check every block in every scenario, and say what came of it."""
    # Only the child may import these: it is the one that finds the right torchresidual.
    import torch  # noqa: PLC0415
    from torch import nn  # noqa: PLC0415

    import rescli  # noqa: PLC0415
    import torchresidual  # noqa: PLC0415

    found = Path(torchresidual.__file__).resolve().parent.parent
    if found != folder.resolve():
        raise SystemExit(f"torchresidual was taken from {found}, not from {folder}")
    block, record, apply = torchresidual.ResidualSequential, torchresidual.Record, torchresidual.Apply
    torch.manual_seed(0)
    blocks = {
        "add": block(record(name="r"), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), apply(record_name="r")),
        "projected": block(record(need_projection=True, name="r"), nn.Linear(8, 6), apply(record_name="r")),
        "highway": block(record(name="r"), nn.Linear(8, 8), apply("highway", record_name="r")),
    }
    for name, module in blocks.items():
        results = rescli.check_threads(module, torch.randn(8, 8), scenarios=SCENARIOS, max_time_s=max_time)
        for result in results:
            yield {
                "block": name,
                "scenario": result.scenario,
                "status": result.status,
                "runs": result.runs,
                "wrong": result.wrong,
                "schedule": result.schedule,
                "detail": result.detail,
            }


if __name__ == "__main__":
    sys.exit(main())
