"""From a block and an input to the facts about it, by running a copy once."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from torch import Tensor, nn

from rescli.graph.copies import copy_block, is_without_data, suitable_device
from rescli.graph.details import type_name
from rescli.graph.diagnose import diagnose
from rescli.graph.diagnostics.rule import Finding
from rescli.graph.gather import gather
from rescli.graph.held import peak_bytes
from rescli.graph.model import BlockGraph, Failure, InputFact, TensorFact
from rescli.graph.recording import record_run
from rescli.graph.rows import rows_of
from rescli.graph.skips import edges_of, holds_of
from rescli.graph.structure import dtype_name, has_size, map_tensors
from torchresidual.errors import ResidualError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rescli.graph.copies import BlockCopy, Device
    from rescli.graph.diagnostics.evidence import BackwardRun, FittingInput
    from rescli.graph.model import LayerFact, Origin
    from rescli.graph.recording import Recording


WithData: TypeAlias = "Callable[[], tuple[nn.Module, Sequence[object]]]"
# With more, making a block for real is likely to end the process, or the machine.
_MOST_REMADE_PARAMETERS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Traced:
    """What a run found, and what ended it.

    Args:
        graph: The facts, up to the layer that failed.
        error: What that layer raised, or None.
    """

    graph: BlockGraph
    error: Exception | None


def trace(
    module: nn.Module,
    inputs: Sequence[object],
    *,
    name: str,
    target: str,
    origin: Origin,
    device: Device | None = None,
    backward: bool = False,
    with_data: WithData | None = None,
) -> BlockGraph:
    """Run a copy of a block once and say what it is.

    The block itself is never run: its mode, hooks, gradients, buffers and devices stay as they are, and so
    does the state of the random number generators.

    Args:
        module: The block.
        inputs: What its forward takes.
        name: What the block is called in results.
        target: Where it comes from, as ``spec.py:name``.
        origin: How the input was found.
        device: Where the copy runs: ``cpu``, or ``meta`` without data. None runs small blocks for real and
            large ones on meta.
        backward: Whether to run a backward pass as well, for what can only be found by one.
        with_data: Makes module and inputs with their data, if they were made without and cannot run so.

    Returns:
        The facts. Of a block that raises, those up to the layer that did, with ``failure`` set.

    Raises:
        SpecError: The block refuses to be copied.

    Example:
        >>> import torch
        >>> graph = trace(nn.Linear(4, 2), [torch.ones(3, 4)], name="linear", target="-", origin="option")
        >>> graph.parameters, graph.flops, graph.layers[0].detail
        (10, 48, '4 -> 2')
    """
    return trace_with_error(
        module,
        inputs,
        name=name,
        target=target,
        origin=origin,
        device=device,
        backward=backward,
        with_data=with_data,
    ).graph


def trace_with_error(
    module: nn.Module,
    inputs: Sequence[object],
    *,
    name: str,
    target: str,
    origin: Origin,
    device: Device | None = None,
    backward: bool = False,
    with_data: WithData | None = None,
) -> Traced:
    """Do what ``trace`` does, and hand over the error itself as well.

    Args:
        module: As for ``trace``.
        inputs: As for ``trace``.
        name: As for ``trace``.
        target: As for ``trace``.
        origin: As for ``trace``.
        device: As for ``trace``.
        backward: As for ``trace``.
        with_data: As for ``trace``.
    """
    device = device or suitable_device(module, inputs)
    block, recording, needs_data = _run(module, inputs, device, with_data)
    failure = _failure(recording)
    rows = rows_of(block.module, recording)
    layers = tuple(row for _, row in rows)
    edges = edges_of(rows, block.originals)
    parameters = _sizes(block.module.named_parameters())
    # Asked of the block itself: copies of TorchScript modules forget it.
    frozen = {path for path, each in module.named_parameters() if not each.requires_grad}
    evidence = gather(
        module,
        rows,
        edges,
        failure,
        fitting=_fitting(module, inputs, layers, failure, device),
        needs_data=needs_data,
        backward=_backward(module, inputs) if backward and failure is None else None,
    )
    accounts = [execution.account for execution in recording.executions if not execution.is_hidden]
    graph = BlockGraph(
        name=name,
        target=target,
        type=type_name(module),
        inputs=tuple(_input_facts(inputs, origin)),
        outputs=tuple(TensorFact(tuple(each.shape), dtype_name(each.dtype)) for each in recording.outputs),
        parameters=sum(parameters.values()),
        trainable_parameters=sum(size for path, size in parameters.items() if path not in frozen),
        buffers=sum(_sizes(block.module.named_buffers()).values()),
        flops=sum(account.flops for account in accounts),
        uncounted=_uncounted(recording),
        peak_bytes_held=peak_bytes(holds_of(rows, edges)),
        layers=layers,
        edges=edges,
        diagnostics=diagnose(evidence),
        failure=failure,
    )
    return Traced(graph, recording.error)


def _sizes(tensors: Iterable[tuple[str, Tensor]]) -> dict[str, int]:
    """Count the elements of each tensor; of one that has no size yet, none."""
    return {path: each.numel() if has_size(each) else 0 for path, each in tensors}


def _run(
    module: nn.Module, inputs: Sequence[object], device: Device, with_data: WithData | None
) -> tuple[BlockCopy, Recording, Finding | None]:
    """Run a copy on the device, or on the CPU where the block needs values that meta tensors do not have."""
    block, recording = _run_on(module, inputs, device)
    error = recording.error
    if device == "cpu" or error is None or not _needs_data(error):
        return block, recording, None
    if is_without_data(module):
        if with_data is None or sum(_sizes(module.named_parameters()).values()) > _MOST_REMADE_PARAMETERS:
            return block, recording, None
        module, inputs = with_data()
    blamed = recording.failed
    culprit = f"{type_name(blamed.module)} at {blamed.path!r}" if blamed and blamed.path else "it"
    note = Finding(
        blamed.path if blamed else "",
        f"the block is large, and {culprit} cannot run without data: it ran on the CPU",
        "the figures are right; a smaller input or fewer features take less time",
    )
    block, recording = _run_on(module, inputs, "cpu")
    return block, recording, note


def _fitting(
    module: nn.Module,
    inputs: Sequence[object],
    layers: Sequence[LayerFact],
    failure: Failure | None,
    device: Device,
) -> FittingInput | None:
    """Look for inputs that fit, where the two ends of a skip do not."""
    if failure is None or failure.recorded_shape is None:
        return None
    from rescli.graph.fitting import fitting_input  # noqa: PLC0415 - most blocks run

    return fitting_input(
        layers, failure, inputs, lambda others: _run_on(module, others, device)[1].error is None
    )


def _backward(module: nn.Module, inputs: Sequence[object]) -> BackwardRun | None:
    from rescli.graph.backward import run_backward  # noqa: PLC0415 - only where it is asked for

    return run_backward(module, inputs)


def _run_on(module: nn.Module, inputs: Sequence[object], device: Device) -> tuple[BlockCopy, Recording]:
    block = copy_block(module, device)
    own = [map_tensors(each, lambda tensor: tensor.detach().to(device, copy=True)) for each in inputs]
    with warnings.catch_warnings():
        # What a layer warns of is said when the user runs it; here it would be about our copy.
        warnings.simplefilter("ignore")
        return block, record_run(block, own)


def _needs_data(error: Exception) -> bool:
    return isinstance(error, NotImplementedError) or "meta" in str(error).lower()


def _failure(recording: Recording) -> Failure | None:
    error, failed = recording.error, recording.failed
    if error is None:
        return None
    if failed is None:
        return Failure(path="", type="", input="", reason=_reason(error), error_type=type(error).__name__)
    cause, read = failed.error or error, failed.read
    return Failure(
        path=failed.path,
        type=type_name(failed.module),
        input=failed.given,
        reason=_reason(cause),
        recorded_shape=read.recorded_shape if read else None,
        current_shape=read.current_shape if read else None,
        error_type=type(cause).__name__,
    )


def _reason(error: BaseException) -> str:
    if isinstance(error, ResidualError):
        return error.reason
    # Behind the first line torch puts frames of its own code; the whole error is shown elsewhere.
    text = str(error).strip().partition("\n")[0]
    return (
        text if isinstance(error, RuntimeError) and text else f"{type(error).__name__}: {text}".rstrip(": ")
    )


def _uncounted(recording: Recording) -> tuple[str, ...]:
    paths = [each.path for each in recording.executions if each.account.has_holes and not each.is_hidden]
    if recording.error is not None:
        paths.append(recording.failed.path if recording.failed else "")
    return tuple(dict.fromkeys(paths))


def _input_facts(inputs: Iterable[object], origin: Origin) -> Iterator[InputFact]:
    for each in inputs:
        if isinstance(each, Tensor):
            yield InputFact(tuple(each.shape), dtype_name(each.dtype), origin)
