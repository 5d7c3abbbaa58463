"""Counting floating point operations while a block runs, and finding out where the count has holes."""

from __future__ import annotations

import functools
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from rescli.graph.formulas import FORMULAS, Call, lacks_formula
from rescli.graph.shapes import known_result
from rescli.graph.structure import tensors_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


# vmap has no public question for this.
_is_inside_vmap: Callable[[Tensor], bool] = torch._C._functorch.is_functorch_wrapped_tensor  # noqa: SLF001


@dataclass(slots=True)
class Account:
    """What one module's own code took so far.

    Args:
        flops: The operations that were counted.
        has_holes: Whether something ran that could not be counted.
    """

    flops: int = 0
    has_holes: bool = False


class FlopMeter(TorchFunctionMode):
    """Counts what the torch functions called under it take, each on the account that is open then.

    A function that multiplies and adds and has no formula makes a hole in the count. So does everything
    that torch functions cannot see: kernels of other libraries, TorchScript, autograd functions written in
    another language. They show by what they leave behind: a tensor that no function returned that was seen.

    Args:
        known: The tensors that exist before the run: inputs, parameters, buffers, constants of the modules.
        on_meta: Whether tensors have no data, so that functions whose results are known need not run.

    Example:
        >>> with FlopMeter(known=()) as meter:
        ...     _ = torch.ones(2, 3) @ torch.ones(3, 4)
        >>> meter.account.flops
        48
    """

    def __init__(self, known: Iterable[Tensor], *, on_meta: bool = False) -> None:
        super().__init__()
        self._on_meta = on_meta
        self.account = Account()
        # By identity; a weak reference tells a tensor from a later one at the same address.
        self._known: dict[int, weakref.ref[Tensor]] = {}
        self.learn(known)

    def learn(self, tensors: Iterable[Tensor]) -> None:
        """Take note of where tensors come from, so that they are no sign of a hole.

        Args:
            tensors: Tensors that were made in a way that is accounted for.
        """
        for tensor in tensors:
            self._known[id(tensor)] = weakref.ref(tensor)

    def check(self, value: object) -> None:
        """Look for tensors that nothing seen has made; if there are any, the open account has a hole.

        Args:
            value: What a function or a module is given, or what a module gives.
        """
        for tensor in tensors_in(value):
            # A parameter is never a result; one without a size may get its memory during the run.
            # The type first: what torch does to answer isinstance takes longer than a small layer.
            kind = type(tensor)
            if kind is nn.Parameter or (kind is not Tensor and isinstance(tensor, nn.Parameter)):
                continue
            known = self._known.get(id(tensor))
            if known is None or known() is not tensor:
                self.learn((tensor,))
                # Indices and masks that a block makes by itself, as from numpy, multiply nothing.
                if tensor.is_floating_point() or tensor.is_complex() or tensor.is_quantized:
                    self.account.has_holes = True

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - whatever the function returns
        """Run one torch function and put what it took on the open account."""
        kwargs = kwargs or {}
        name, is_ours = _name_of(func)
        out: Any = known_result(func, args, kwargs) if self._on_meta else None
        if out is None:
            out = func(*args, **kwargs)
        if name == "__iter__":
            # An iterator hides the tensors that it will give.
            out = iter(list(out))
            self.learn(args[0].unbind(0))
        if name != "__get__":
            self.check(args)
            if kwargs:
                self.check(kwargs)
            self._charge(name, Call(args, kwargs, out), is_ours=is_ours)
        self.learn((out,) if isinstance(out, Tensor) else tensors_in(out))
        return out

    def _charge(self, name: str, call: Call, *, is_ours: bool) -> None:
        formula = FORMULAS.get(name)
        if not is_ours or lacks_formula(name):
            self.account.has_holes = True
        elif formula is not None:
            if any(map(_shape_is_not_all, tensors_in(call.args))):
                self.account.has_holes = True
                return
            # A call of a form that the formula does not know is a hole, never the end of the run.
            try:
                self.account.flops += int(formula(call))
            except (TypeError, ValueError, AttributeError, IndexError, RuntimeError):
                self.account.has_holes = True


@functools.lru_cache(maxsize=4096)
def _name_of(func: Callable[..., Any]) -> tuple[str, bool]:
    """Find a function's bare name, and whether it is one of torch's own."""
    if isinstance(func, torch._ops.OpOverloadPacket | torch._ops.OpOverload):  # noqa: SLF001 - no public name
        name = func._qualified_op_name if isinstance(func, torch._ops.OpOverloadPacket) else func._schema.name  # noqa: SLF001
        namespace, _, bare = name.partition("::")
        return _without_underscore(bare), namespace in {"aten", "prim", "prims"}
    if isinstance(func, torch._ops.HigherOrderOperator):  # noqa: SLF001 - no public name
        return str(func._name), False  # noqa: SLF001 - its name() has no type
    module = getattr(func, "__module__", None)
    bare = str(getattr(func, "__name__", func))
    # Methods of tensors have no module.
    is_ours = module is None or module.partition(".")[0] == "torch"
    return _without_underscore(bare), is_ours


def _without_underscore(name: str) -> str:
    """Drop the mark of the in-place form: ``addmm_`` takes what ``addmm`` takes."""
    return name if name.endswith("__") else name.removesuffix("_")


def _shape_is_not_all(tensor: Tensor) -> bool:
    """Say whether the shape hides part of the work: under vmap, and of sparse and nested tensors."""
    return tensor.layout != torch.strided or _is_inside_vmap(tensor)
