"""The rows of a listing: what each execution was, and which parameters count there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from rescli.graph.details import detail_of, type_name
from rescli.graph.model import LayerFact
from rescli.graph.structure import has_size
from torchresidual.core import Apply, Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rescli.graph.model import LayerKind
    from rescli.graph.recording import Execution, Recording


def rows_of(block: nn.Module, recording: Recording) -> list[tuple[Execution, LayerFact]]:
    """Make the rows of the listing, each with the parameters that no earlier row counts.

    The block itself has a row only if it has something of its own to show there, as parameters that belong to
    none of its children; the rows of a complete run hold every parameter once.

    Args:
        block: The copy that ran.
        recording: What its run left.

    Returns:
        The executions that have a row, in order, each with its row.
    """
    shown = [each for each in recording.executions if not each.is_hidden]
    owned = _owned_parameters(block, shown, complete=recording.error is None)
    root = shown[0] if shown else None
    if root is not None and len(shown) > 1 and not _root_has_own(root, owned.get(root, []), recording):
        shown.remove(root)
    counted: set[int] = set()
    seen: set[int] = set()
    rows = []
    for index, execution in enumerate(shown):
        parameters = 0
        for parameter in owned.get(execution, ()):
            if id(parameter) not in counted:
                counted.add(id(parameter))
                parameters += parameter.numel()
        rows.append((execution, _row(execution, index, parameters, seen, recording.failed)))
        seen.add(id(execution.module))
    return rows


def _root_has_own(root: Execution, parameters: Sequence[nn.Parameter], recording: Recording) -> bool:
    """Say whether the block itself has something to show beside its children."""
    if recording.error is not None:
        return False
    return bool(parameters) or root.account.flops > 0 or root.account.has_holes


def _row(
    execution: Execution, index: int, parameters: int, seen: set[int], failed: Execution | None
) -> LayerFact:
    module = execution.module
    kind = _kind(execution)
    record = module.name if isinstance(module, Record) else None
    if isinstance(module, Apply):
        record = execution.read.name if execution.read else module.record_name
    return LayerFact(
        index=index,
        path=execution.path,
        kind=kind,
        type=type_name(module),
        depth=execution.depth,
        output_shape=execution.output_shape,
        dtype=execution.dtype,
        parameters=parameters,
        flops=None if execution.account.has_holes or execution.error else execution.account.flops,
        reused=id(module) in seen,
        detail=_row_detail(module),
        output=execution.output,
        record=record,
        failed=execution is failed,
        memory_format=execution.memory_format,
    )


def _kind(execution: Execution) -> LayerKind:
    if isinstance(execution.module, Record):
        return "record"
    if isinstance(execution.module, Apply):
        return "apply"
    return "block" if execution.has_rows or isinstance(execution.module, nn.Sequential) else "layer"


def _row_detail(module: nn.Module) -> str:
    if isinstance(module, Record):
        return "need_projection" if module.need_projection else ""
    return module.operation if isinstance(module, Apply) else detail_of(module)


def _owned_parameters(
    block: nn.Module, shown: Sequence[Execution], *, complete: bool
) -> dict[Execution, list[nn.Parameter]]:
    """Give each module that ran its parameters, and those of modules below it that never ran as modules.

    Such are the projection of an Apply, and the output layer of nn.MultiheadAttention, which torch reads
    without calling it. Of a block that stopped half-way nobody knows which modules would have run, so there
    only Applies get what lies below them.
    """
    first: dict[int, Execution] = {}
    for execution in shown:
        first.setdefault(id(execution.module), execution)
    owned: dict[Execution, list[nn.Parameter]] = {}
    holders: dict[str, Execution | None] = {}
    for path, module in block.named_modules():
        around = holders.get(path.rpartition(".")[0]) if path else None
        belongs_below = complete or (around is not None and isinstance(around.module, Apply))
        holder = holders[path] = first.get(id(module), around if belongs_below else None)
        if holder is not None:
            mine = [each for each in module.parameters(recurse=False) if has_size(each)]
            owned.setdefault(holder, []).extend(mine)
    return owned
