"""One run of a copy of a block, watched by hooks: which module ran where, on what, and what it read."""

from __future__ import annotations

import contextlib
import functools
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ParamSpec

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import ParametrizationList

from rescli.graph.copies import untouched_rng
from rescli.graph.flops import Account, FlopMeter
from rescli.graph.paths import CallPaths
from rescli.graph.structure import describe, dtype_name, first_tensor, memory_format_of, tensors_in
from torchresidual.core import Apply, ResidualSequential, recorded_for
from torchresidual.errors import InPlaceError, ResidualError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rescli.graph.copies import BlockCopy
    from rescli.graph.model import MemoryFormat, Shape

Arguments = ParamSpec("Arguments")


@dataclass(frozen=True, slots=True)
class Read:
    """What an Apply was about to combine.

    Args:
        record: The Record whose tensor it reads; None if it found none.
        name: The name of the record.
        recorded_shape: Shape of that tensor, before a projection; None if there is none.
        current_shape: Shape of the tensor that reached the Apply.
        bytes_held: Memory of the recorded tensor.
        memory: What tells this memory from all other that is in use at the same time.
        is_current: Whether the tensor that reached the Apply is that very tensor.
    """

    record: nn.Module | None
    name: str | None
    recorded_shape: Shape | None
    current_shape: Shape
    bytes_held: int = 0
    memory: int = 0
    is_current: bool = False


@dataclass(slots=True, eq=False)
class Execution:
    """One execution of one module of the copy.

    Args:
        module: The module.
        path: The position it was called at.
        depth: How many modules stand around it.
        parent: What called it; None for the block itself.
        given: What it was called with, as text.
        is_hidden: Whether it belongs to the row of a module around it, as the projection of an Apply.
        account: What its own code took.
        output: What it gave, as text.
        output_shape: Shape of the first tensor of that.
        dtype: Type of that tensor.
        memory_format: In which order it lies in memory.
        has_rows: Whether modules with a row of their own ran in it.
        read: For an Apply, what it read.
        inner: What the hidden modules in it took, by identity.
        error: What it raised.
        calls: How often it has called each module, by identity.
        handled: The exception that its caller was handling anyway.
    """

    module: nn.Module
    path: str
    depth: int
    parent: Execution | None
    given: str
    is_hidden: bool
    account: Account = field(default_factory=Account)
    output: str = ""
    output_shape: Shape | None = None
    dtype: str | None = None
    memory_format: MemoryFormat | None = None
    has_rows: bool = False
    read: Read | None = None
    inner: dict[int, Account] = field(default_factory=dict)
    error: BaseException | None = None
    calls: dict[int, int] = field(default_factory=dict)
    handled: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Recording:
    """What a run left.

    Args:
        executions: In the order in which they began; the block itself is the first, if it got that far.
        outputs: The tensors the block gave.
        error: What ended the run before its end.
        failed: The innermost execution that raised it.
    """

    executions: tuple[Execution, ...]
    outputs: tuple[Tensor, ...]
    error: Exception | None
    failed: Execution | None


def record_run(block: BlockCopy, inputs: Sequence[object]) -> Recording:
    """Run a copy once, without gradients, and write down what happens.

    The fast paths of torch's Transformer layers, which would hide their layers, are off by themselves: they
    are not taken while torch functions are watched.

    Args:
        block: The copy; afterwards it still carries the hooks.
        inputs: On the device of the copy, and not used by anybody else.
    """
    tensors = [*block.tensors, *tensors_in(list(inputs))]
    meter = FlopMeter(tensors, on_meta=any(each.is_meta for each in tensors_in(list(inputs))))
    recorder = _Recorder(block.module, meter, knows_memory_format=_keeps_memory_format(tensors))
    recorder.watch()
    outputs: tuple[Tensor, ...] = ()
    error: Exception | None = None
    with untouched_rng(), torch.no_grad(), without_compiling():
        try:
            with meter:
                output = block.module(*inputs)
            outputs = tuple(tensors_in(output))
        except Exception as raised:  # noqa: BLE001 - a block that cannot run is a result
            error = raised
    return Recording(tuple(recorder.executions), outputs, error, recorder.culprit(error))


def _keeps_memory_format(tensors: Iterable[Tensor]) -> bool:
    """Say whether a run lays out memory as one with data would: convolutions without data do not go by channels."""
    own = [each for each in tensors if each.is_meta]
    return all(memory_format_of(each) not in {"channels_last", "channels_last_3d"} for each in own)


def without_compiling() -> contextlib.AbstractContextManager[object]:
    """Let what ``torch.compile`` made run as it was written: there are no layers to see in compiled code."""
    # Nothing can be compiled before this is imported, and importing it takes seconds.
    if "torch._dynamo" not in sys.modules:
        return contextlib.nullcontext()
    stance: contextlib.AbstractContextManager[object] = torch.compiler.set_stance("force_eager")
    return stance


def _unseen(hook: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """Keep what a hook asks of tensors from the meter: that would take longer than the layers do."""

    @functools.wraps(hook)
    def quiet(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        with torch._C.DisableTorchFunction():  # noqa: SLF001 - there is no public name for it
            hook(*args, **kwargs)

    return quiet


class _Recorder:
    """The hooks, and the stack of what is running."""

    def __init__(self, block: nn.Module, meter: FlopMeter, *, knows_memory_format: bool) -> None:
        self.executions: list[Execution] = []
        self._knows_memory_format = knows_memory_format
        self._block = block
        self._meter = meter
        self._paths = CallPaths(block)
        self._running: list[Execution] = []
        self._culprit: Execution | None = None

    def watch(self) -> None:
        """Hook every module of the copy."""
        for module in self._block.modules():
            # The methods of TorchScript modules refuse; those of Records and Applies tell their block.
            kind = nn.Module if isinstance(module, torch.jit.ScriptModule) else type(module)
            # Before hooks of the user's own, so that their work counts as the module's.
            kind.register_forward_pre_hook(module, self._enter, prepend=True, with_kwargs=True)
            # Also where the module raises: whoever catches that may go on.
            kind.register_forward_hook(module, self._leave, always_call=True)

    def culprit(self, error: BaseException | None) -> Execution | None:
        """Name the innermost execution that an error came from."""
        culprit = self._culprit
        if error is None or culprit is None or not _came_from(error, culprit.error):
            return None
        return self._writer(culprit) if isinstance(culprit.error, InPlaceError) else culprit

    def _writer(self, block: Execution) -> Execution:
        """Find the layer that wrote in place: the block behind it noticed, and its error has the path."""
        outermost, step = block, block.parent
        while step is not None:
            outermost = step if isinstance(step.module, ResidualSequential) else outermost
            step = step.parent
        assert isinstance(block.error, InPlaceError)  # noqa: S101 - checked by the caller
        path = ".".join(part for part in (outermost.path, block.error.path) if part)
        return next((each for each in reversed(self.executions) if each.path == path), block)

    @_unseen
    def _enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        handled = sys.exc_info()[1]
        parent = self._running[-1] if self._running else None
        given = (args, kwargs) if kwargs else args
        # Charged to the caller: what it hands on may have been made where nobody could see.
        self._meter.check(given)
        execution = Execution(
            module=module,
            path=self._path(parent, module),
            depth=parent.depth + 1 if parent else 0,
            parent=parent,
            given=describe(args[0] if len(args) == 1 and not kwargs else given),
            is_hidden=parent is not None and _is_hidden_in(parent, module),
            handled=handled,
        )
        if parent is not None and not execution.is_hidden:
            parent.has_rows = True
        if isinstance(module, Apply):
            execution.read = _what_is_read(module, args)
        self.executions.append(execution)
        self._running.append(execution)
        self._meter.account = execution.account

    @_unseen
    def _leave(self, module: nn.Module, args: tuple[Any, ...], output: object) -> None:  # noqa: ARG002 - torch's signature
        execution = self._running.pop()
        error = sys.exc_info()[1]
        if error is not None and error is not execution.handled:
            execution.error = error
            execution.output = f"raised {type(error).__name__}"
            if self._culprit is None or not _came_from(error, self._culprit.error):
                self._culprit = execution
        else:
            self._meter.check(output)
            execution.output = describe(output)
            tensor = first_tensor(output)
            if tensor is not None:
                execution.output_shape = tuple(tensor.shape)
                execution.dtype = dtype_name(tensor.dtype)
                if self._knows_memory_format:
                    execution.memory_format = memory_format_of(tensor)
        if self._running:
            self._meter.account = self._running[-1].account
        if execution.is_hidden:
            _hand_up(execution)

    def _path(self, parent: Execution | None, module: nn.Module) -> str:
        if parent is None:
            return ""
        before = parent.calls.get(id(module), 0)
        parent.calls[id(module)] = before + 1
        return self._paths.path(parent.module, parent.path, module, before)


def _is_hidden_in(parent: Execution, module: nn.Module) -> bool:
    """Say whether a module's work belongs to the row of what called it."""
    return parent.is_hidden or isinstance(parent.module, Apply) or isinstance(module, ParametrizationList)


def _hand_up(execution: Execution) -> None:
    """Put what a hidden module took on its caller, and note it at the row that both belong to."""
    parent, account = execution.parent, execution.account
    assert parent is not None  # noqa: S101 - the block itself is never hidden
    parent.account.flops += account.flops
    parent.account.has_holes |= account.has_holes
    while parent.is_hidden and parent.parent is not None:
        parent = parent.parent
    total = parent.inner.setdefault(id(execution.module), Account())
    total.flops += account.flops
    total.has_holes |= account.has_holes


def _what_is_read(module: Apply, args: tuple[Any, ...]) -> Read:
    current = first_tensor(args)
    current_shape = () if current is None else tuple(current.shape)
    try:
        recorded = recorded_for(module)
    except ResidualError:
        # The Apply itself is about to say so.
        return Read(None, module.record_name, None, current_shape)
    tensor = first_tensor(recorded.tensor)
    if tensor is None:
        return Read(recorded.record, recorded.name, None, current_shape)
    held = tensor.numel() * tensor.element_size()
    return Read(
        recorded.record,
        recorded.name,
        tuple(tensor.shape),
        current_shape,
        held,
        _memory_of(tensor),
        is_current=tensor is current,
    )


def _memory_of(tensor: Tensor) -> int:
    try:
        memory: int = tensor.untyped_storage()._cdata  # noqa: SLF001 - also there on meta, which has no addresses
    except NotImplementedError:  # sparse tensors consist of several
        return id(tensor)
    return memory


def _came_from(error: BaseException | None, cause: BaseException | None) -> bool:
    """Say whether an error is another one, or was raised because of it."""
    while error is not None and cause is not None:
        if error is cause:
            return True
        error = error.__cause__ or error.__context__
    return False
