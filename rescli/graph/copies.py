"""Copies to run instead of the user's own block, on the CPU or on the meta device where they take no memory."""

from __future__ import annotations

import contextlib
import copy
import random
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from rescli.errors import SpecError
from rescli.graph.module_copier import ModuleCopier
from rescli.graph.structure import has_size, tensors_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Device = Literal["cpu", "meta"]

# Up to here a real run on the CPU is quicker than what the meta device costs when it is first touched (0.85 s).
_MOST_REAL_PARAMETERS = 20_000_000
_MOST_REAL_INPUT_ELEMENTS = 1_000_000
_PLAIN = frozenset({Tensor, nn.Parameter})


@dataclass(frozen=True, slots=True)
class BlockCopy:
    """A copy of a block.

    Args:
        module: The copy, in evaluation mode.
        tensors: All tensors that were copied and are no parameters: buffers, and what modules keep as plain attributes.
        originals: The user's own module for each module of the copy, by the identity of the latter.
    """

    module: nn.Module
    tensors: tuple[Tensor, ...]
    originals: dict[int, nn.Module]


def suitable_device(module: nn.Module, inputs: Sequence[object]) -> Device:
    """Say where a copy should run: small blocks for real, large ones without data.

    Args:
        module: The block.
        inputs: What it will be run on.
    """
    own = list(module.parameters())
    if any(parameter.is_meta for parameter in own):
        return "meta"
    parameters = sum(parameter.numel() for parameter in own if has_size(parameter))
    elements = sum(tensor.numel() for tensor in tensors_in(list(inputs)))
    is_large = parameters > _MOST_REAL_PARAMETERS or elements > _MOST_REAL_INPUT_ELEMENTS
    return "meta" if is_large else "cpu"


def is_without_data(module: nn.Module) -> bool:
    """Say whether a block was built on the meta device, at least in part.

    Args:
        module: The block.
    """
    return any(parameter.is_meta for parameter in module.parameters())


def copy_block(module: nn.Module, device: Device) -> BlockCopy:
    """Copy a block to another device without touching it, and without taking the memory twice on meta.

    The copy is in evaluation mode: there every layer shows, BatchNorm takes a batch of one, dropout and
    stochastic depth draw no random numbers, and a run leaves no statistics behind.

    Args:
        module: The user's block. It may hold tensors that plain deepcopy refuses, and objects that nothing
            can copy, as locks: the copy shares these.
        device: Where the copy goes.

    Raises:
        SpecError: The block refuses to be copied.
    """
    transfer = _Transfer(torch.device(device))
    try:
        with torch.no_grad():
            twin = _twin(module, transfer)
    except Exception as error:
        raise SpecError(
            f"the block cannot be copied, and it is never run itself: {type(error).__name__}: {error}",
            hint="give the class a __deepcopy__, or build the block in a function",
        ) from error
    _place_unsized(twin, torch.device(device))
    twin.eval()
    pairs = list(zip(twin.modules(), module.modules(), strict=False))
    originals = {id(mine): yours for mine, yours in pairs if type(mine) is type(yours)}
    tensors = [*transfer.copies, *twin.buffers()]
    return BlockCopy(module=twin, tensors=tuple(tensors), originals=originals)


def _place_unsized(twin: nn.Module, device: torch.device) -> None:
    """Move parameters and buffers that have no size yet: they carry the device that they will be made on.

    ``Module.to`` cannot: from CPU to meta it turns them into parameters of size 0.
    """
    for part in twin.modules():
        stores: tuple[dict[str, Any], ...] = (part._parameters, part._buffers)  # noqa: SLF001 - setattr refuses
        for store in stores:
            for name, value in store.items():
                if value is not None and not has_size(value) and value.data.device != device:
                    remake: Any = type(value)
                    store[name] = remake(value.requires_grad, device, value.data.dtype)


@contextlib.contextmanager
def untouched_rng() -> Iterator[None]:
    """Give the random number generators of torch, Python and NumPy their states back at the end."""
    python = random.getstate()
    # Only if somebody has imported it: we do not need it.
    numpy = sys.modules.get("numpy.random")
    state = numpy.get_state() if numpy else None
    # Asking a GPU that nobody uses would start its driver.
    is_gpu_used: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call] # torch leaves it so
    devices = range(torch.cuda.device_count()) if is_gpu_used else ()
    with torch.random.fork_rng(devices=devices):
        try:
            yield
        finally:
            random.setstate(python)
            if numpy:
                numpy.set_state(state)


class _Transfer(TorchFunctionMode):
    """Sends every tensor that deepcopy meets to one device, wherever in the block it is kept."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.copies: list[Tensor] = []
        self._device = device

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - whatever the function returns
        name = getattr(func, "__name__", "")
        if name == "__deepcopy__":
            return self._copy(*args)
        if name == "clone":  # how a Parameter copies its data
            return self.move(args[0])
        return func(*args, **(kwargs or {}))

    def _copy(self, tensor: Tensor, memo: dict[int, Any]) -> Tensor:
        if id(tensor) in memo:
            known: Tensor = memo[id(tensor)]
            return known
        twin = self.move(tensor)
        # deepcopy itself refuses tensors that are results of a computation; their copy is no result.
        if tensor.is_leaf and tensor.requires_grad:
            twin.requires_grad_()
        memo[id(tensor)] = twin
        twin.__dict__.update(copy.deepcopy(tensor.__dict__, memo))
        return twin

    def move(self, tensor: Tensor) -> Tensor:
        """Copy the values of a tensor to the device, or only its size to meta."""
        if self._device.type == "meta" and type(tensor) in _PLAIN and tensor.is_contiguous():
            # The same as below, in a hundredth of the time.
            twin = torch.empty(tensor.shape, dtype=tensor.dtype, device=self._device)
        elif self._device.type == "meta":
            twin = torch.empty_like(tensor.detach(), device=self._device)
        else:
            twin = tensor.detach().to(self._device, copy=True)
        self.copies.append(twin)
        return twin


def _twin(module: nn.Module, transfer: _Transfer) -> nn.Module:
    def copied(memo: dict[int, Any]) -> nn.Module:
        twin: nn.Module = ModuleCopier(memo, transfer.move, lambda: transfer).copy(module)
        return twin

    try:
        return copied({})
    except TypeError:
        # What Python says of locks, generators, open files: look for them and share them.
        return copied(_uncopyable_parts(module))


def _uncopyable_parts(module: nn.Module) -> dict[int, Any]:
    """Find what no module can hand to a copy, as the memo that makes deepcopy share it."""
    memo: dict[int, Any] = {}
    for part in module.modules():
        for attribute in vars(part).values():
            # Dictionaries of hooks must not be shared whole: the copy gets hooks of ours.
            for value in attribute.values() if isinstance(attribute, dict) else (attribute,):
                if not isinstance(value, nn.Module | Tensor) and not _can_copy(value):
                    memo[id(value)] = value
    return memo


def _can_copy(value: object) -> bool:
    try:
        copy.deepcopy(value)
    except Exception:  # noqa: BLE001 - whatever it is that fails, it cannot be copied
        return False
    return True
