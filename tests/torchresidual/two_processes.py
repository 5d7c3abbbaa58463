"""What test_distributed.py has two processes do, with gloo: each check runs in both, as ``python -m`` this module.

A check compares with a copy that trains in this process alone on the whole batch, while each process of the parallel
one has half. In double precision, so that equal means equal up to the order of a sum.
"""

from __future__ import annotations

import argparse
import copy
import json
import traceback
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from tests.torchresidual.compiled_blocks import CASES, RECURRENT, Case
from tests.torchresidual.toys import Doubled, gates_of
from torchresidual import Apply, LearnableAlpha, Record, ResidualSequential

if TYPE_CHECKING:
    from collections.abc import Callable

PROCESSES = 2
# A process whose partner died is freed after this.
TIMEOUT = timedelta(seconds=120)
STEPS = 3
# Before 2.9 fully_shard refuses the CPU, or computes wrong numbers on it.
FSDP_WORKS_ON_GLOO = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 9)


def everything() -> ResidualSequential:
    """A block with projections, gates, a scale, and an alpha that serves two Applies."""
    shared = LearnableAlpha(0.3)
    return ResidualSequential(
        Record(need_projection=True, name="in"),
        nn.Linear(8, 12),
        ResidualSequential(Record(), nn.Linear(12, 12), nn.ReLU(inplace=True), Apply("highway")),
        Apply("gated", "in", alpha=shared, scale=LearnableAlpha(0.01, 1e-4, 1.0)),
        Record(),
        nn.Linear(12, 12),
        Apply(alpha=shared),
    )


def materialized() -> ResidualSequential:
    block = ResidualSequential(Record(need_projection=True), Doubled(), nn.Sequential(Apply("highway")))
    return block.materialize(torch.zeros(1, 8))


BLOCKS = {
    **CASES,
    "recurrent": RECURRENT,
    "everything": Case(everything, (8,)),
    "materialized": Case(materialized, (8,)),
}


def double(case: Case) -> tuple[nn.Module, Tensor]:
    block, x = case.build(4 * PROCESSES)
    return block.double(), x.double()


def whole(value: Any) -> Any:  # noqa: ANN401 - a tensor, or one that is sharded
    """Return all of a tensor that may be sharded."""
    return value.full_tensor() if hasattr(value, "full_tensor") else value


def whole_state(module: nn.Module) -> dict[str, Tensor]:
    return {key: whole(value).detach().clone() for key, value in module.state_dict().items()}


def assert_trains_as_one_process(parallel: nn.Module, alone: nn.Module, x: Tensor) -> None:
    """Train both for several steps and compare outputs, every gradient, and what is left in the end."""
    mine = x.chunk(PROCESSES)[distributed.get_rank()]
    momentum = partial(torch.optim.SGD, lr=0.1, momentum=0.9)
    optimizers = momentum(parallel.parameters()), momentum(alone.parameters())
    before = whole_state(alone)
    for _ in range(STEPS):
        for optimizer in optimizers:
            optimizer.zero_grad()
        out, expected = parallel(mine), alone(x)
        torch.testing.assert_close(out, expected.chunk(PROCESSES)[distributed.get_rank()])
        out.square().mean().backward()
        expected.square().mean().backward()
        gradients = [whole(parameter.grad) for parameter in parallel.parameters()]
        torch.testing.assert_close(gradients, [parameter.grad for parameter in alone.parameters()])
        for optimizer in optimizers:
            optimizer.step()
    after = whole_state(alone)
    torch.testing.assert_close(list(whole_state(parallel).values()), list(after.values()))
    still = [name for name, _ in alone.named_parameters() if torch.equal(before[name], after[name])]
    assert still == [], "the steps moved nothing there, so that nothing was compared"


# ---------------------------------------------------------------------------------------------- DDP


def ddp(case: Case) -> None:
    block, x = double(case)
    alone = copy.deepcopy(block)
    assert_trains_as_one_process(DistributedDataParallel(block, find_unused_parameters=False), alone, x)


class Checkpointed(nn.Module):
    """Recomputes a block in backward."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block = block

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = checkpoint(self.block, x, use_reentrant=False)
        return result


def ddp_checkpointed() -> None:
    block, x = double(BLOCKS["everything"])
    alone = copy.deepcopy(block)
    assert_trains_as_one_process(DistributedDataParallel(Checkpointed(block)), alone, x)


def ddp_starts_as_rank_zero() -> None:
    """Blocks that were drawn differently: everybody gets what rank 0 has, bounds of an alpha included."""
    rank = distributed.get_rank()
    block = ResidualSequential(
        Record(need_projection=True),
        nn.Linear(8, 12),
        Apply("gated", alpha=LearnableAlpha(0.5, 0.0, 1.0 + rank)),
    )
    parallel = DistributedDataParallel(block)
    first = copy.deepcopy(block.state_dict())
    for value in first.values():
        distributed.broadcast(value, 0)
    torch.testing.assert_close(dict(parallel.module.state_dict()), dict(first))


def ddp_not_averaged() -> None:
    """Plants the fault: nobody averages the gradients."""
    block, x = double(BLOCKS["everything"])
    assert_trains_as_one_process(block, copy.deepcopy(block), x)


# --------------------------------------------------------------------------------------------- FSDP2


def fsdp(case: Case) -> None:
    from torch.distributed.fsdp import fully_shard

    block, x = double(case)
    alone = copy.deepcopy(block)
    fully_shard(block)
    assert list(block.state_dict()) == list(alone.state_dict())
    assert_trains_as_one_process(block, alone, x)


def fsdp_in_pieces() -> None:
    """Layers, a nested block, an Apply and a projection are sharded each on its own, then the rest."""
    from torch.distributed.fsdp import fully_shard

    block, x = double(BLOCKS["everything"])
    alone = copy.deepcopy(block)
    for path in ("1", "2.3", "2", "3.projection_layer"):
        fully_shard(block.get_submodule(path))
    fully_shard(block)
    assert list(block.state_dict()) == list(alone.state_dict())
    assert_trains_as_one_process(block, alone, x)


def assert_starts_as_constructed(block: nn.Module) -> None:
    """Compare what torch cannot restore by itself: values and bounds of the alphas, biases of the gates."""
    state = whole_state(block)
    transform, carry = gates_of(block)
    assert torch.equal(whole(transform.bias), torch.full((12,), -1.0).double())
    assert torch.equal(whole(carry.bias), torch.full((12,), 1.0).double())
    for prefix, start, low, high in (("3.alpha", 0.3, 0.0, 1.0), ("3.scale", 0.01, 1e-4, 1.0)):
        bounds = [state[f"{prefix}.{name}"].item() for name in ("min_val", "max_val", "use_log")]
        assert bounds == [torch.tensor(low).item(), torch.tensor(high).item(), low > 0]
        alpha = LearnableAlpha(high, low, high).double()
        alpha.load_state_dict(
            {key.removeprefix(prefix + "."): value for key, value in state.items() if prefix in key}
        )
        torch.testing.assert_close(float(alpha), start, rtol=1e-6, atol=0)


def on_meta() -> nn.Module:
    from torch.distributed.fsdp import fully_shard

    with torch.device("meta"):
        block = everything()
    block.double()
    fully_shard(block.get_submodule("2"))
    fully_shard(block)
    return block.to_empty(device="cpu")


def fsdp_from_meta() -> None:
    block = on_meta()
    for module in block.modules():
        reset = getattr(module, "reset_parameters", None)
        if reset is not None:
            reset()
    assert_starts_as_constructed(block)
    alone = everything().double()
    assert list(block.state_dict()) == list(alone.state_dict())
    alone.load_state_dict(whole_state(block))
    _, x = double(BLOCKS["everything"])
    assert_trains_as_one_process(block, alone, x)


def fsdp_not_restored() -> None:
    """Plants the fault: the memory that to_empty gave is not filled with the start."""
    block = on_meta()
    with torch.no_grad():
        for tensor in (*block.parameters(), *block.buffers()):
            tensor.zero_()
    assert_starts_as_constructed(block)


def fsdp_loads_a_whole_state() -> None:
    """A state of one process, mapping of its alpha included, is taken over and given back."""
    from torch.distributed.checkpoint import state_dict as distributed_state
    from torch.distributed.fsdp import fully_shard

    def make(high: float) -> ResidualSequential:
        return ResidualSequential(Record(True), nn.Linear(8, 12), Apply(alpha=LearnableAlpha(0.5, 0.0, high)))

    saved = make(2.0)
    for value in saved.state_dict().values():
        distributed.broadcast(value, 0)
    block = make(1.0)
    fully_shard(block)
    options = distributed_state.StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    state = copy.deepcopy(saved.state_dict()) if distributed.get_rank() == 0 else {}
    distributed_state.set_model_state_dict(block, state, options=options)
    x = torch.randn(2, 8, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(block(x), saved(x))
    whole_options = distributed_state.StateDictOptions(full_state_dict=True)
    given = distributed_state.get_model_state_dict(block, options=whole_options)
    torch.testing.assert_close(dict(given), dict(saved.state_dict()))


def fsdp_in_half_precision() -> None:
    """Computes in bf16 with an alpha in fp32; gradients arrive in fp32."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    block, x = BLOCKS["everything"].build()
    half = copy.deepcopy(block).to(torch.bfloat16)
    fully_shard(block, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))
    out = block(x)
    torch.testing.assert_close(out, half(x.bfloat16()))
    out.sum().backward()
    assert {whole(parameter.grad).dtype for parameter in block.parameters()} == {torch.float32}


def fsdp_not_settled() -> None:
    """The words are those of torch, which say what to do: run it once."""
    from torch.distributed.fsdp import fully_shard

    block = ResidualSequential(Record(need_projection=True), Doubled(), Apply())
    try:
        fully_shard(block)
    except RuntimeError as error:
        assert "uninitialized parameter" in str(error)  # noqa: PT017 - there is no pytest here
    else:
        raise AssertionError("fully_shard took uninitialized parameters")


DDP: dict[str, Callable[[], None]] = {
    **{f"ddp: {name}": partial(ddp, case) for name, case in BLOCKS.items()},
    "ddp: checkpointed": ddp_checkpointed,
}
FSDP: dict[str, Callable[[], None]] = {
    **{f"fsdp: {name}": partial(fsdp, case) for name, case in BLOCKS.items()},
    "fsdp: in pieces": fsdp_in_pieces,
}
OTHERS: dict[str, Callable[[], None]] = {
    function.__name__: function
    for function in (
        ddp_starts_as_rank_zero,
        ddp_not_averaged,
        fsdp_from_meta,
        fsdp_not_restored,
        fsdp_loads_a_whole_state,
        fsdp_in_half_precision,
        fsdp_not_settled,
    )
}


def main() -> None:
    """Run every check and write what each raised, or an empty text."""
    parser = argparse.ArgumentParser()
    parser.add_argument("rank", type=int)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo",
        init_method=f"file://{arguments.folder / 'store'}",
        rank=arguments.rank,
        world_size=PROCESSES,
        timeout=TIMEOUT,
    )
    report: dict[str, str] = {}
    for name, check in {**DDP, **FSDP, **OTHERS}.items():
        if name.startswith("fsdp") and not FSDP_WORKS_ON_GLOO:
            continue
        distributed.barrier()
        try:
            check()
        except Exception:  # noqa: BLE001 - whatever it is, the test of that name shows it
            report[name] = traceback.format_exc()
        else:
            report[name] = ""
    (arguments.folder / f"report{arguments.rank}.json").write_text(json.dumps(report), encoding="utf-8")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
