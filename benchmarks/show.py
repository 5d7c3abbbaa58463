"""What ``rescli show`` and ``rescli lint`` take beside ``import torch``, and beside other tools on the same blocks.

    python benchmarks/show.py                     all rows, some minutes
    python benchmarks/show.py --rounds 3 --layers 2000 --no-peers
    python benchmarks/show.py --json

The bars: a small spec 1.25 of ``import torch``; a flat block of 10,000 layers with 3,000 skips 4; its extra time at
most 12 times that of a block a tenth as large; a factory of 100 billion parameters 2.2, and at most 150 MB more memory
than importing torch. How long only building the flat block takes has a row of its own, and so have torchinfo, torchview
and torchlens where they are installed: they get the block as Python has it, without its data if it is large, and where
they cannot do it their row says why.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.processes import BASE, Case, as_json, measure, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.processes import Sample

GROWTH_BAR = 12.0
SPECS = {
    "small": """
def small() -> nn.Module:
    return ResidualSequential(
        Record(name="in"), nn.Linear(64, 64), nn.ReLU(), nn.LayerNorm(64), Apply("add", record_name="in")
    )
""",
    "flat": """
def flat(layers: int = 10_000, skips: int = 3_000) -> nn.Module:
    parts, open_record = [], None
    for layer in range(layers):
        if layer * skips // layers != (layer - 1) * skips // layers:
            parts += [] if open_record is None else [Apply("add", record_name=open_record)]
            open_record = f"skip {layer}"
            parts.append(Record(name=open_record))
        parts.append(nn.Linear(4, 4))
    return ResidualSequential(*parts, Apply("add", record_name=open_record))
""",
    "huge": """
def huge(layers: int = 373, width: int = 16_384) -> nn.Module:
    parts = []
    for _ in range(layers):
        parts += [Record(), nn.Linear(width, width), Apply()]
    return ResidualSequential(*parts)
""",
}
# Reads a spec as rescli does, and builds its block: what the other tools start from.
BUILD = """
import contextlib, pathlib, torch, torchresidual
from torch import nn
spec = {**vars(torchresidual), "nn": nn}
exec(pathlib.Path("{name}.py").read_text(), spec)
with torch.device("meta") if {large} else contextlib.nullcontext():
    block = spec["{name}"]({arguments})
    x = torch.zeros(8, {width})
"""
PEERS = {
    "torchinfo": "import torchinfo; print(torchinfo.summary(block, input_data=x, device=x.device, verbose=0))",
    "torchview": "import torchview; torchview.draw_graph(block, input_data=x, device=x.device)",
    "torchlens": "import torchlens; print(torchlens.log_forward_pass(block, x))",
}


def cases(layers: int, *, peers: bool) -> list[Case]:
    """Return what is measured: our commands on each block, and the other tools that are installed."""
    few = layers // 10
    flat, tenth = (("--set", f"layers={n}", "--set", f"skips={n * 3 // 10}") for n in (layers, few))
    ours = ("-m", "rescli")
    found = [
        Case(BASE, ("-c", "import torch")),
        Case("show small", (*ours, "show", "small.py"), 1.25),
        Case(f"show flat {few:,}", (*ours, "show", "flat.py", *tenth)),
        Case(f"show flat {layers:,}", (*ours, "show", "flat.py", *flat), 4.0),
        Case(f"lint flat {few:,}", (*ours, "lint", "flat.py", *tenth)),
        Case(f"lint flat {layers:,}", (*ours, "lint", "flat.py", *flat), 4.0),
        Case("show huge", (*ours, "show", "huge.py"), 2.2, 150.0),
        Case(f"build flat {layers:,}", ("-c", built("flat", f"{layers}, {layers * 3 // 10}", 4))),
    ]
    if peers:
        for tool, use in PEERS.items():
            if importlib.util.find_spec(tool) is not None:
                found += [
                    Case(f"{tool} small", ("-c", built("small", "", 64) + use)),
                    Case(
                        f"{tool} flat {layers:,}",
                        ("-c", built("flat", f"{layers}, {layers * 3 // 10}", 4) + use),
                    ),
                    Case(f"{tool} huge", ("-c", built("huge", "", 16_384, large=True) + use)),
                ]
    return found


def built(name: str, arguments: str, width: int, *, large: bool = False) -> str:
    """Return the code that builds a block."""
    code = BUILD
    for key, value in (("name", name), ("arguments", arguments), ("width", width), ("large", large)):
        code = code.replace(f"{{{key}}}", str(value))
    return code


def growth(samples: Mapping[str, Sequence[Sample]], command: str, layers: int) -> float | None:
    """Return how much more a block takes than one a tenth as large, both beyond ``import torch``."""
    large, small = (samples[f"{command} flat {count:,}"] for count in (layers, layers // 10))
    if any(sample.problem for sample in (*large, *small)):
        return None
    base = samples[BASE]
    return statistics.median(
        (one.wall_s - zero.wall_s) / (other.wall_s - zero.wall_s)
        for one, other, zero in zip(large, small, base, strict=True)
        if other.wall_s > zero.wall_s
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7, help="how often each command runs")
    parser.add_argument("--layers", type=int, default=10_000, help="layers of the flat block")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-peers", action="store_true", help="only our own commands")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    wanted = cases(options.layers, peers=not options.no_peers)
    with tempfile.TemporaryDirectory() as folder:
        for name, text in SPECS.items():
            (Path(folder) / f"{name}.py").write_text(text, encoding="utf-8")
        samples = measure(wanted, options.rounds, options.seed, Path(folder))
    say = (lambda _: None) if options.json else print
    found = table(wanted, samples, options.seed, say)
    grown = {command: growth(samples, command, options.layers) for command in ("show", "lint")}
    for command, value in grown.items():
        verdict = "FAIL" if value is None or value > GROWTH_BAR else "ok"
        say(
            f"{command}: ten times the layers take {value:.1f} times the extra time, bar {GROWTH_BAR:g}  {verdict}"
            if value is not None
            else f"{command}: no figures, FAIL"
        )
    if not options.no_peers:
        missing = [tool for tool in PEERS if importlib.util.find_spec(tool) is None]
        say(f"not installed here: {', '.join(missing)}" if missing else "all peers are installed")
    if options.json:
        print(json.dumps({"rows": as_json(found), "growth": grown, "growth_bar": GROWTH_BAR}, indent=2))
    fails = any(row.fails for row in found) or any(
        value is None or value > GROWTH_BAR for value in grown.values()
    )
    return 1 if fails else 0


if __name__ == "__main__":
    sys.exit(main())
