"""Make docs/ARCHITECTURES.md, the figures of the published networks among the shipped specs.

Usage: python .ci/architectures.py [--write]

Each row is what `rescli show` counts. With --write the page is written anew, else it is compared.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from rescli.cli.app import run
from rescli.spec.target import parse_target

PAGE = Path(__file__).resolve().parent.parent / "docs" / "ARCHITECTURES.md"
PAPER = re.compile(r"https?://[^\s)]+")

# What follows `rescli show` in each row.
ROWS = (
    "resnet18",
    "resnet50",
    "resnet50 --set depth=101",
    "resnet50 --set depth=152",
    "unet",
    "mobilenet_v2",
    "mobilenet_v2 --set width=0.5",
    "gpt2_block",
    "gpt2_block --set n=12",
    "gpt2_block:gpt2 --set n=12",
    "transformer_base_layer",
    "rezero_layer",
    "highway --input 1x50",
    "highway:CoupledHighway --set width=50 --input 1x50",
)
COLUMNS = (
    "`rescli show ...`",
    "input",
    "parameters",
    "FLOPs",
    "skips",
    "bytes held",
    "projections' and gates' parameters",
    "paper",
)
TEXT = """\
# Published architectures

Specs that ship with rescli and are networks people know, so that anyone can compare the figures. Made from
`rescli show` by `python .ci/architectures.py --write`; the tests compare it, and check the outputs of each
network against one in plain PyTorch with the same weights.

{table}

- **FLOPs** are two for each multiply-add of matrix products, convolutions and attention, as
  `torch.utils.flop_counter` counts them; the attention of GPT-2 is counted in full, not halved for its mask.
- **bytes held** are those of all recorded tensors together, in float32. Each is let go of at its last Apply, so skips
  that follow one another do not hold theirs at the same time; those of the U-Net do.
- **projections' and gates' parameters** are part of the parameters: 1x1 convolutions with BatchNorm that the ResNets
  give to Apply, and the two gates that the highway operation inserts.

## What Record and Apply leave to a module of the spec's own

| spec | module | why |
| --- | --- | --- |
| [gpt2_block](../specs/gpt2_block.py) | `CausalSelfAttention` | `nn.MultiheadAttention` takes its mask at each call |
| [gpt2_block](../specs/gpt2_block.py) | `TokensAndPositions` | two tables are added, nothing is skipped |
| [highway](../specs/highway.py) | `CoupledHighway` | one gate for both sides, where the highway operation has two |

All other skips are a Record and an Apply. The U-Net's Apply puts the recorded channels behind the current ones, where
most implementations have them in front: weights carry over with the two halves exchanged.
"""


def show(arguments: str) -> dict[str, Any]:
    """Return what `rescli show` says of one block.

    Args:
        arguments: The TARGET and its options.

    Raises:
        RuntimeError: The command failed; its message has been printed.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "block.json"
        if run(["show", *arguments.split(), "--format", "json", "-o", str(path)]) != 0:
            raise RuntimeError(f"rescli show {arguments} failed")
        (block,) = json.loads(path.read_text(encoding="utf-8"))["blocks"]
    return dict(block)


def paper(arguments: str) -> str:
    """Return a link to the paper that a spec's docstring names first.

    Args:
        arguments: As for ``show``.
    """
    path = parse_target(arguments.split(maxsplit=1)[0]).path
    assert path is not None  # noqa: S101 - shipped specs are files
    text = path.read_text(encoding="utf-8")
    found = PAPER.search(text)
    assert found is not None  # noqa: S101 - each of ROWS names one
    year = re.search(r"([A-Z][a-z]+)(?: et al\.)? (\d{4})", text)
    assert year is not None  # noqa: S101 - likewise
    return f"[{year[1]} {year[2]}]({found[0]})"


def row(arguments: str) -> tuple[str, ...]:
    """Return the cells of one row.

    Args:
        arguments: As for ``show``.
    """
    block = show(arguments)
    edges = block["edges"]
    bridges = [edge[kind] for edge in edges for kind in ("projection", "gates") if edge[kind]]
    return (
        f"`{arguments}`",
        "x".join(map(str, block["inputs"][0]["shape"])),
        f"{block['parameters']:,}",
        f"{block['flops']:,}",
        " ".join((str(len(edges)), *sorted({edge["operation"] for edge in edges}))),
        f"{sum(edge['bytes_held'] for edge in edges):,}",
        f"{sum(bridge['parameters'] for bridge in bridges):,}",
        paper(arguments),
    )


def page() -> str:
    """Return the page as the specs stand."""
    lines = [COLUMNS, ("---", "---", "---:", "---:", "---", "---:", "---:", "---"), *map(row, ROWS)]
    return TEXT.format(table="\n".join(f"| {' | '.join(cells)} |" for cells in lines))


def main() -> int:
    """Write or compare the page, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--write", action="store_true", help="write docs/ARCHITECTURES.md anew")
    expected = page()
    if parser.parse_args().write:
        PAGE.write_text(expected, encoding="utf-8")
    elif not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != expected:
        print(
            "docs/ARCHITECTURES.md is not what the specs give; run: python .ci/architectures.py --write",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
