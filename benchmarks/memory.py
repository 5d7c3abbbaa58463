"""What a stack of residual blocks holds in memory, beside the same stack written by hand.

    python benchmarks/memory.py               48 blocks of Linear, ReLU, Linear and an Apply
    python benchmarks/memory.py --depth 8 --size 16x64 --json

Counted, not sampled: every allocation of PyTorch's CPU allocator in one call, in order, gives the peak to the byte;
what autograd saves for the backward is the sum of the storages that it packs, each once, without the parameters. What
is left when the call is over and its output gone must be nothing. A row fails where the stack takes more than 1% above
the hand-written one, or holds anything afterwards.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

import torchresidual
from rescli.bench.allocations import trace_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OPERATIONS = ("add", "concat", "multiply", "gated", "highway")
ALPHAS = ("1", "0.3", "learned")
MOST = 1.01


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of block: bytes of the stack (``ours``) and of the one written by hand."""

    operation: str
    alpha: str
    ours_inference_bytes: int
    hand_inference_bytes: int
    ours_training_bytes: int
    hand_training_bytes: int
    ours_saved_bytes: int
    hand_saved_bytes: int
    left_bytes: int

    @property
    def ratios(self) -> tuple[float, float, float]:
        """Ours over the hand-written one: peak of inference, peak of training, what autograd saves."""
        return (
            self.ours_inference_bytes / self.hand_inference_bytes,
            self.ours_training_bytes / self.hand_training_bytes,
            self.ours_saved_bytes / self.hand_saved_bytes,
        )

    @property
    def fails(self) -> bool:
        """Whether it takes more than allowed, or keeps anything."""
        return max(self.ratios) > MOST or self.left_bytes > 0


class Hand(nn.Module):
    """The same block with the skip written by hand, on the layers of one of ours."""

    def __init__(self, block: nn.Module, operation: str) -> None:
        super().__init__()
        self.branch = nn.Sequential(*(block.get_submodule(name) for name in ("1", "2", "3")))
        self.tail = block.get_submodule("5")
        self.operation = operation
        apply: Any = block.get_submodule("4")
        self.alpha = apply.alpha
        self.gates = apply.gate_layer

    def forward(self, r: Tensor) -> Tensor:
        """Run it; nothing is held that the expression does not need."""
        x: Tensor = self.branch(r)
        a = self.alpha() if isinstance(self.alpha, nn.Module) else self.alpha
        if self.operation == "add":
            x = x + (r if isinstance(a, float) and a == 1.0 else a * r)
        elif self.operation == "multiply":
            x = x * (1 + a * r)
        elif self.operation == "gated":
            x = (1 - a) * x + a * r
        elif self.operation == "concat":
            x = torch.cat([x, r], -1)
        else:
            gates = self.gates
            x = torch.sigmoid(gates.transform_gate(x)) * x + torch.sigmoid(gates.carry_gate(r)) * r
        del r
        out: Tensor = self.tail(x)
        return out


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a module between two marks, as the memory meter wants it."""

    module: nn.Module
    x: Tensor
    training: bool
    parts: dict[Any, tuple[int, ...]]
    period: int = 1

    def run(self, iterations: int, mark: Callable[[], None]) -> None:
        """Run it."""
        for _ in range(iterations):
            mark()
            if self.training:
                self.module(self.x).sum().backward()
                self.module.zero_grad(set_to_none=True)
            else:
                with torch.inference_mode():
                    self.module(self.x)
            mark()


def used(module: nn.Module, x: Tensor, *, training: bool) -> tuple[int, int]:
    """Return the peak of one call and what is left when it is over, in bytes."""
    use = trace_memory(Call(module, x, training, {"forward": (0,)}))["forward"]
    return use.peak_bytes, use.retained_bytes


def saved(module: nn.Module, x: Tensor) -> int:
    """Return the bytes that autograd saves in a forward, each storage once, without the parameters."""
    own = {parameter.untyped_storage().data_ptr() for parameter in module.parameters()}
    storages: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = module(
            x
        )  # alive until the sum is made: a storage that is gone could lend its address to the next
    total = sum(storages.values())
    del out
    return total


def stacks(operation: str, alpha: str, depth: int, width: int) -> tuple[nn.Module, nn.Module]:
    """Return a stack of blocks and the hand-written one on the same layers."""
    blocks = []
    for _ in range(depth):
        weight: Any = torchresidual.LearnableAlpha(0.3) if alpha == "learned" else float(alpha)
        blocks.append(
            torchresidual.ResidualSequential(
                torchresidual.Record(),
                nn.Linear(width, 2 * width),
                nn.ReLU(),
                nn.Linear(2 * width, width),
                torchresidual.Apply(operation, alpha=weight),
                nn.Linear(2 * width if operation == "concat" else width, width),
            )
        )
    return nn.Sequential(*blocks), nn.Sequential(*(Hand(block, operation) for block in blocks))


def row_of(operation: str, alpha: str, ours: nn.Module, hand: nn.Module, x: Tensor) -> Row:
    """Count one row."""
    inference, left = used(ours, x, training=False)
    training, left_too = used(ours, x, training=True)
    return Row(
        operation=operation,
        alpha=alpha,
        ours_inference_bytes=inference,
        hand_inference_bytes=used(hand, x, training=False)[0],
        ours_training_bytes=training,
        hand_training_bytes=used(hand, x, training=True)[0],
        ours_saved_bytes=saved(ours, x),
        hand_saved_bytes=saved(hand, x),
        left_bytes=left + left_too,
    )


def rows(depth: int, size: str) -> Iterator[Row]:
    """Count row by row."""
    batch, width = (int(part) for part in size.split("x"))
    for operation in OPERATIONS:
        for alpha in ("1",) if operation in ("concat", "highway") else ALPHAS:
            torch.manual_seed(0)
            yield row_of(operation, alpha, *stacks(operation, alpha, depth, width), torch.randn(batch, width))


def main() -> int:
    """Print the table; return 1 if a row fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--depth", type=int, default=48, help="blocks in the stack")
    parser.add_argument("--size", default="64x256", help="batch and features")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = list(rows(options.depth, options.size))
    if options.json:
        print(
            json.dumps([{**asdict(row), "ratios": row.ratios, "fails": row.fails} for row in found], indent=2)
        )
    else:
        print(f"{'operation':10} {'alpha':8} {'inference':>16} {'training':>16} {'saved':>16} {'left':>6}")
        for row in found:
            ours = (row.ours_inference_bytes, row.ours_training_bytes, row.ours_saved_bytes)
            cells = (f"{ratio:6.3f} {n / 2**20:5.1f} MiB" for ratio, n in zip(row.ratios, ours, strict=True))
            print(
                f"{row.operation:10} {row.alpha:8} {' '.join(cells)} {row.left_bytes:6} {'FAIL' if row.fails else 'ok'}"
            )
    return 1 if any(row.fails for row in found) else 0


if __name__ == "__main__":
    sys.exit(main())
