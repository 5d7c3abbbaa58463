"""What ``rescli`` takes before it works, beside ``import torch``.

    python benchmarks/startup.py
    python benchmarks/startup.py --rounds 5 --json

The bars: ``rescli --help`` 0.15 of ``import torch``; a wrong option, a wrong value or a missing file 0.25.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.processes import BASE, Case, as_json, measure, table

if TYPE_CHECKING:
    from collections.abc import Sequence

_OURS = ("-m", "rescli")
CASES = (
    Case(BASE, ("-c", "import torch")),
    Case("python alone", ("-c", "pass")),
    Case("rescli --help", (*_OURS, "--help"), 0.15),
    Case("rescli --version", (*_OURS, "--version"), 0.15),
    Case("rescli show --help", (*_OURS, "show", "--help"), 0.15),
    Case("rescli bench --help", (*_OURS, "bench", "--help"), 0.15),
    Case("a wrong command", (*_OURS, "shwo"), 0.25, exits=2),
    Case("a wrong option", (*_OURS, "show", "--wdith", "4"), 0.25, exits=2),
    Case("a wrong value", (*_OURS, "show", "x.py", "--batch-size", "many"), 0.25, exits=2),
    Case("a missing file", (*_OURS, "show", "missing.py"), 0.25, exits=3),
    Case("a missing file for lint", (*_OURS, "lint", "missing.py"), 0.25, exits=3),
)


def main(arguments: Sequence[str] | None = None, cases: Sequence[Case] = CASES) -> int:
    """Print the table; return 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9, help="how often each command runs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        samples = measure(cases, options.rounds, options.seed, Path(folder))
    found = table(cases, samples, options.seed, (lambda _: None) if options.json else print)
    if options.json:
        print(json.dumps({"rows": as_json(found)}, indent=2))
    return 1 if any(row.fails for row in found) else 0


if __name__ == "__main__":
    sys.exit(main())
