"""The skips of a run as facts: what joins Record and Apply, what weighs them, and what they lead around."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from rescli.graph.held import Hold
from rescli.graph.inserted import gates_of, projection_of
from rescli.graph.model import EdgeFact, WeightFact
from rescli.graph.structure import has_size
from torchresidual import LearnableAlpha
from torchresidual.core import Apply

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rescli.graph.model import LayerFact
    from rescli.graph.recording import Execution

# concat and highway put the recorded tensor in as it is.
_WITHOUT_ALPHA = frozenset({"concat", "highway"})


def edges_of(
    rows: Sequence[tuple[Execution, LayerFact]], originals: Mapping[int, nn.Module]
) -> tuple[EdgeFact, ...]:
    """Join each Apply that read something to the execution of the Record that had saved it.

    Args:
        rows: The executions that have a row, with that row, in order.
        originals: The user's own module for each module of the copy: values are read there, as a copy on the
            meta device has none.
    """
    joined = list(_joined_rows(rows))
    last_reader = dict(joined)  # Applies come in order: the last one of a Record stays
    layers, flops, unknown = _before([row for _, row in rows])
    edges = []
    for record, apply in joined:
        execution, row = rows[apply]
        module, read = execution.module, execution.read
        # Only an Apply reads, and only what it has read is joined.
        assert isinstance(module, Apply)  # noqa: S101
        assert read is not None  # noqa: S101
        assert read.recorded_shape is not None  # noqa: S101
        is_counted = unknown[apply] == unknown[record + 1]
        edges.append(
            EdgeFact(
                record=read.name,
                record_path=rows[record][1].path,
                apply_path=row.path,
                operation=module.operation,
                **_weights(module, originals),
                recorded_shape=read.recorded_shape,
                current_shape=read.current_shape,
                span=layers[apply] - layers[record],
                span_flops=flops[apply] - flops[record + 1] if is_counted else None,
                bytes_held=read.bytes_held,
                held_layers=layers[last_reader[record]] - layers[record],
                projection=projection_of(execution, row.path, originals),
                gates=gates_of(execution, row.path, originals),
                dim=_joined_dim(execution) if module.operation == "concat" else None,
                record_index=record,
                apply_index=apply,
            )
        )
    return tuple(edges)


def _joined_rows(rows: Sequence[tuple[Execution, LayerFact]]) -> Iterator[tuple[int, int]]:
    """Find the row of the Record for each row of an Apply that has read one."""
    latest: dict[int, int] = {}
    for execution, row in rows:
        if row.kind == "record":
            latest[id(execution.module)] = row.index
        read = execution.read
        if read is None or read.record is None or read.recorded_shape is None or row.failed:
            continue
        record = latest.get(id(read.record))
        # A Record that ran inside something that has no row leaves nothing to draw an arc from.
        if record is not None:
            yield record, row.index


def _before(rows: Sequence[LayerFact]) -> tuple[list[int], list[int], list[int]]:
    """Sum up what ran before each row: leaf layers, their operations, and rows whose operations are not known."""
    return (
        list(accumulate((row.kind == "layer" for row in rows), initial=0)),
        list(accumulate((row.flops or 0 for row in rows), initial=0)),
        list(accumulate((row.flops is None for row in rows), initial=0)),
    )


def holds_of(rows: Sequence[tuple[Execution, LayerFact]], edges: Iterable[EdgeFact]) -> Iterator[Hold]:
    """Say from which row to which each recorded tensor is kept.

    Args:
        rows: The executions that have a row, with that row, in order.
        edges: Their skips.
    """
    for edge in edges:
        read = rows[edge.apply_index][0].read
        if read is not None:
            yield Hold(edge.record_index, edge.apply_index, edge.bytes_held, read.memory)


def _weights(apply: Apply, originals: Mapping[int, nn.Module]) -> dict[str, WeightFact | None]:
    original = originals.get(id(apply), apply)
    alpha, scale = getattr(original, "alpha", 1.0), getattr(original, "scale", 1.0)
    return {
        "alpha": None if apply.operation in _WITHOUT_ALPHA else weight_fact(alpha),
        "scale": weight_fact(scale),
    }


def weight_fact(weight: object) -> WeightFact | None:
    """Say what an alpha or a scale is.

    Args:
        weight: A number, a LearnableAlpha, a tensor or a parameter.

    Returns:
        None for anything else.

    Example:
        >>> weight_fact(0.5)
        WeightFact(value=0.5, learnable=False, min=None, max=None, space=None, shape=None, saturation=None)
    """
    if isinstance(weight, LearnableAlpha):
        # The module's own bounds, not the buffers: fp32 turns 0.1 into 0.10000000149, and meta has no values.
        low, high = weight._bounds["min_val"], weight._bounds["max_val"]  # noqa: SLF001 - the library is ours
        with torch.no_grad():
            value = None if weight.param.is_meta else _short(float(weight()))
        space: Literal["linear", "log"] = "log" if weight.use_log_space else "linear"
        saturation = None if value is None else _short(weight.saturation)
        return WeightFact(value, weight.param.requires_grad, low, high, space, saturation=saturation)
    if isinstance(weight, Tensor):
        learnable = isinstance(weight, nn.Parameter) and weight.requires_grad
        return WeightFact(_common_value(weight), learnable, None, None, None, tuple(weight.shape))
    if isinstance(weight, int | float):
        return WeightFact(float(weight), False, None, None, None)
    return None


def _common_value(weight: Tensor) -> float | None:
    if weight.is_meta or not has_size(weight) or not weight.numel() or weight.is_complex():
        return None
    flat = weight.detach().flatten()
    return _short(float(flat[0])) if bool((flat == flat[0]).all()) else None


def _short(value: float) -> float:
    """Drop the digits that fp32 does not have: 0.30000001192 is 0.3."""
    return float(f"{value:.7g}")


def _joined_dim(execution: Execution) -> int | None:
    """Find the dimension that grew: what the run did, not what somebody asked for."""
    before, after = (execution.read.current_shape if execution.read else ()), execution.output_shape or ()
    grown = [dim for dim, (old, new) in enumerate(zip(before, after, strict=False)) if old != new]
    return grown[0] if len(grown) == 1 else None
