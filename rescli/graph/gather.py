"""From a block and its run to the evidence that diagnostics are found in."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Literal

from torch import Size, nn

from rescli.graph.diagnostics.evidence import AlphaState, Evidence, LayoutGuess, Placement, Traits
from rescli.graph.inserted import is_layout_guessed
from rescli.graph.model import SATURATED_FROM
from rescli.graph.structure import has_size
from torchresidual import LearnableAlpha, ResidualSequential
from torchresidual.bridging import bridge_between, guessed_dim
from torchresidual.core import Apply, Record
from torchresidual.errors import ShapeError
from torchresidual.inplace import Writes, returns_its_input, writes_into_input
from torchresidual.structure import runs_in_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rescli.graph.diagnostics.evidence import BackwardRun, FittingInput
    from rescli.graph.diagnostics.rule import Finding
    from rescli.graph.model import EdgeFact, Failure, LayerFact
    from rescli.graph.recording import Execution

# Classes of other libraries that drop whole branches or regions, by their usual names.
_DROPPING_CLASS = re.compile(r"drop_?(path|block|connect|layer)|stochastic_?depth|shake_?drop", re.IGNORECASE)
# They give their input back only where there is nothing to shuffle.
_SHUFFLES = (nn.PixelShuffle, nn.PixelUnshuffle, nn.ChannelShuffle)
_DROP_RATES = ("p", "drop_prob", "drop_rate")
_WITHOUT_ALPHA = frozenset({"concat", "highway"})


def gather(
    module: nn.Module,
    rows: Sequence[tuple[Execution, LayerFact]],
    edges: tuple[EdgeFact, ...],
    failure: Failure | None,
    *,
    fitting: FittingInput | None = None,
    needs_data: Finding | None = None,
    backward: BackwardRun | None = None,
) -> Evidence:
    """Collect what the rules look at.

    Args:
        module: The user's block.
        rows: The executions of its copy that have a row, with that row.
        edges: The skips of the run.
        failure: Where it stopped, if it did.
        fitting: Inputs that fit where this one did not.
        needs_data: Why a large block ran on the CPU, if it did.
        backward: What one backward pass left; None without one.
    """
    traits = ((row.index, _traits(execution)) for execution, row in rows)
    return Evidence(
        layers=tuple(row for _, row in rows),
        edges=edges,
        failure=failure,
        placements=placements(module),
        traits={index: found for index, found in traits if found is not None},
        unchanged=frozenset(
            row.index for execution, row in rows if execution.read and execution.read.is_current
        ),
        alphas=tuple(_alphas(module)),
        unsettled=tuple(name for name, each in module.named_parameters() if not has_size(each)),
        can_materialize=isinstance(module, ResidualSequential),
        guesses=tuple(_guesses(rows)),
        fitting=fitting,
        needs_data=needs_data,
        backward=backward,
    )


def placements(module: nn.Module) -> tuple[Placement, ...]:
    """List the Records and Applies of a block in the order of its structure, one for each place.

    Args:
        module: The block.
    """
    scopes: dict[str, str] = {}
    found = []
    for path, part in module.named_modules(remove_duplicate=False):
        around = scopes.get(path.rpartition(".")[0], "")
        scopes[path] = path if isinstance(part, ResidualSequential) else around
        if isinstance(part, Record):
            found.append(Placement(path, "record", part.name, around, need_projection=part.need_projection))
        elif isinstance(part, Apply):
            has_alpha = not isinstance(part.alpha, float) or part.alpha != 1.0
            found.append(
                Placement(
                    path,
                    "apply",
                    part.record_name,
                    around,
                    operation=part.operation,
                    has_own_projection=part.projection_given,
                    ignores_alpha=has_alpha and part.operation in _WITHOUT_ALPHA,
                )
            )
    return tuple(found)


def _traits(execution: Execution) -> Traits | None:
    """Say what a layer does beyond its sizes; None of the many that do nothing."""
    module = execution.module
    if isinstance(module, Record | Apply):
        return None
    if isinstance(module, nn.Sequential):
        is_ours = (
            isinstance(module, ResidualSequential) and type(module).forward is ResidualSequential.forward
        )
        return Traits(is_container=True) if is_ours or runs_in_order(module) else None
    traits = Traits(
        drops=_drops(module),
        writes_in_place=writes_into_input(module) is Writes.IN_PLACE,
        passes_on=returns_its_input(module) and not isinstance(module, _SHUFFLES),
        is_batch_second=_is_batch_second(execution),
    )
    return None if traits == _NOTHING else traits


_NOTHING = Traits()


def _drops(module: nn.Module) -> bool:
    is_known = isinstance(module, nn.modules.dropout._DropoutNd)  # noqa: SLF001 - the common base has no public name
    if not is_known and not _DROPPING_CLASS.search(type(module).__name__):
        return False
    rates = [getattr(module, name) for name in _DROP_RATES if hasattr(module, name)]
    # A rate of None or 0 switches it off; where there is none of these names, the class's own name has to do.
    return not rates or any(rates)


def _is_batch_second(execution: Execution) -> bool:
    module, shape = execution.module, execution.output_shape
    if not isinstance(module, nn.RNNBase | nn.MultiheadAttention) or module.batch_first:
        return False
    # Of two dimensions none is a batch; a packed sequence comes out as two.
    return shape is not None and len(shape) == 3


def _alphas(module: nn.Module) -> Iterator[AlphaState]:
    for path, alpha in module.named_modules():
        if not isinstance(alpha, LearnableAlpha) or not alpha.param.requires_grad:
            continue
        low, high = alpha._bounds["min_val"], alpha._bounds["max_val"]  # noqa: SLF001 - the library is ours
        is_known = not alpha.param.is_meta
        yield AlphaState(
            path=path,
            parameter=f"{path}.param" if path else "param",
            value=float(alpha) if is_known else None,
            tanh=alpha.saturation if is_known else None,
            free_from=_value_at(-SATURATED_FROM, low, high, log=alpha.use_log_space),
            free_to=_value_at(SATURATED_FROM, low, high, log=alpha.use_log_space),
        )


def _value_at(tanh: float, low: float, high: float, *, log: bool) -> float:
    """Give the value of a LearnableAlpha at a point of its curve."""
    if log:
        return math.exp(_value_at(tanh, math.log(low), math.log(high), log=False))
    return (low + high) / 2 + tanh * (high - low) / 2


def _guesses(rows: Sequence[tuple[Execution, LayerFact]]) -> Iterator[LayoutGuess]:
    """Find the Applies that the shapes of the run had to tell where features lie."""
    for execution, row in rows:
        apply, read = execution.module, execution.read
        if not isinstance(apply, Apply) or read is None or read.recorded_shape is None or execution.error:
            continue
        purpose = _needs_dim(apply)
        if purpose is None or not is_layout_guessed(apply, read.current_shape):
            continue
        recorded, current = Size(read.recorded_shape), Size(read.current_shape)
        dim = guessed_dim(current, current if purpose == "gates" else recorded)
        yield LayoutGuess(
            path=row.path,
            purpose=purpose,
            dim=dim % len(current),
            shape=tuple(current),
            is_forced=_is_forced(purpose, dim, current, recorded),
        )


def _needs_dim(apply: Apply) -> Literal["concat", "projection", "gates"] | None:
    if apply.operation == "concat":
        return "concat"
    if apply.operation == "highway":
        return "gates"
    return "projection" if apply.projection_layer is not None and not apply.projection_given else None


def _is_forced(purpose: str, dim: int, current: Size, recorded: Size) -> bool:
    """Say whether the block could not have run with the other usual dimension."""
    other = -1 if dim == 1 else 1
    if purpose == "concat":
        # With a difference in one dimension, no other can be joined along.
        return current != recorded
    if purpose == "gates":
        return False
    try:
        bridge_between(current, recorded, other, subject="")
    except ShapeError:
        return True
    return False
