"""The skips of a run as facts: what joins Record and Apply, what weighs them, and what bridges their sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from rescli.graph.details import detail_of, type_name
from rescli.graph.model import EdgeFact, InsertedFact, WeightFact
from rescli.graph.structure import has_size
from torchresidual import LearnableAlpha
from torchresidual.core import Apply

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    latest: dict[int, LayerFact] = {}
    # Leaf layers that ran before each row.
    layers_before: list[int] = []
    layers = 0
    edges = []
    for execution, row in rows:
        layers_before.append(layers)
        layers += row.kind == "layer"
        if row.kind == "record":
            latest[id(execution.module)] = row
        read = execution.read
        if read is None or read.record is None or read.recorded_shape is None or row.failed:
            continue
        record = latest.get(id(read.record))
        if record is None:
            # The Record ran inside something that has no row; there is nothing to draw an arc from.
            continue
        assert isinstance(execution.module, Apply)  # noqa: S101 - nothing else reads
        edges.append(
            EdgeFact(
                record=read.name,
                record_path=record.path,
                apply_path=row.path,
                operation=execution.module.operation,
                **_weights(execution.module, originals),
                recorded_shape=read.recorded_shape,
                current_shape=read.current_shape,
                span=layers_before[row.index] - layers_before[record.index],
                bytes_held=read.bytes_held,
                projection=_projection(execution, row.path),
                gates=_gates(execution, row.path),
                dim=_joined_dim(execution) if execution.module.operation == "concat" else None,
                record_index=record.index,
                apply_index=row.index,
            )
        )
    return tuple(edges)


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
        WeightFact(value=0.5, learnable=False, min=None, max=None, space=None, shape=None)
    """
    if isinstance(weight, LearnableAlpha):
        # The module's own bounds, not the buffers: fp32 turns 0.1 into 0.10000000149, and meta has no values.
        low, high = weight._bounds["min_val"], weight._bounds["max_val"]  # noqa: SLF001 - the library is ours
        with torch.no_grad():
            value = None if weight.param.is_meta else _short(float(weight()))
        space: Literal["linear", "log"] = "log" if weight.use_log_space else "linear"
        return WeightFact(value, weight.param.requires_grad, low, high, space)
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


def _projection(execution: Execution, path: str) -> InsertedFact | None:
    layer = getattr(execution.module, "projection_layer", None)
    if layer is None:
        return None
    given = bool(getattr(execution.module, "projection_given", False))
    return _inserted(execution, layer, f"{path}.projection_layer", is_given=given)


def _gates(execution: Execution, path: str) -> InsertedFact | None:
    layer = getattr(execution.module, "gate_layer", None)
    return None if layer is None else _inserted(execution, layer, f"{path}.gate_layer", is_given=False)


def _inserted(execution: Execution, layer: nn.Module, path: str, *, is_given: bool) -> InsertedFact:
    parts = tuple(
        _inserted(execution, child, f"{path}.{name}", is_given=is_given)
        for name, child in layer.named_children()
    )
    account = execution.inner.get(id(layer))
    own = None if account is None else account.flops
    # A container that was not called itself took what its parts took.
    flops = own if own is not None or not parts else _sum_known(parts)
    return InsertedFact(
        path=path,
        type=type_name(layer),
        detail=detail_of(layer) or _joined(parts),
        parameters=sum(each.numel() for each in layer.parameters() if has_size(each)),
        flops=None if account is not None and account.has_holes else flops,
        origin="given" if is_given else "inserted",
        parts=parts,
    )


def _joined(parts: Sequence[InsertedFact]) -> str:
    labels = [f"{part.type} {part.detail}".strip() for part in parts]
    if len(labels) > 1 and len(set(labels)) == 1:
        return f"{len(labels)} x {labels[0]}"
    return " + ".join(labels)


def _sum_known(parts: Sequence[InsertedFact]) -> int | None:
    known = [part.flops for part in parts if part.flops is not None]
    return sum(known) if len(known) == len(parts) else None
