"""Copies modules attribute by attribute: `copy.deepcopy` takes longer over 10,000 layers than everything else."""

from __future__ import annotations

import copy
import copyreg
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

_ATOMS = frozenset({bool, int, float, complex, str, bytes, type(None), type})
_DICTIONARIES = frozenset({dict, OrderedDict})
_OTHER_WAYS = ("__deepcopy__", "__getnewargs__", "__getnewargs_ex__", "__getinitargs__")
_CONTAINERS = frozenset({*_DICTIONARIES, set})
# What torch keeps on every module: mostly empty, and each module has its own.
_BOOKKEEPING = frozenset(vars(nn.Module()))


class ModuleCopier:
    """Makes what ``copy.deepcopy`` would make of a module.

    Whatever has a say in how it is copied goes through ``copy.deepcopy``, and so does all that is neither a module,
    nor a parameter, nor one of the plain values and dictionaries that most of a module consists of.

    Args:
        memo: The copies that exist already, by the identity of the original, as deepcopy has it.
        move: Makes the tensor that takes the place of a parameter's.
        watch: Opens what deepcopy runs under, where tensors may turn up that it meets by itself.

    Example:
        >>> from contextlib import nullcontext
        >>> block = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        >>> twin = ModuleCopier({}, lambda tensor: tensor.detach().clone(), nullcontext).copy(block)
        >>> twin, twin[0].weight is block[0].weight, twin[0].weight.equal(block[0].weight)
        (Sequential(
          (0): Linear(in_features=2, out_features=2, bias=True)
          (1): ReLU()
        ), False, True)
    """

    def __init__(
        self,
        memo: dict[int, Any],
        move: Callable[[Tensor], Tensor],
        watch: Callable[[], AbstractContextManager[object]],
    ) -> None:
        self._memo = memo
        self._move = move
        self._watch = watch
        # An identity in the memo must not be given to another object while we are at it.
        self._kept: list[object] = []
        self._is_plain: dict[type, bool] = {}

    def copy(self, value: Any) -> Any:  # noqa: ANN401 - whatever a module holds
        """Copy a module, or anything that one holds.

        Args:
            value: The original; it stays as it is.

        Raises:
            Exception: Whatever deepcopy raises of a part that refuses to be copied.
        """
        kind = type(value)
        if kind in _ATOMS:
            return value
        known = self._memo.get(id(value), self)
        if known is not self:
            return known
        if kind in _DICTIONARIES:
            return self._dictionary(value)
        if kind is nn.Parameter and not vars(value):
            return self._parameter(value)
        if isinstance(value, nn.Module):
            return self._module(value)
        return self._deepcopy(value)

    def _deepcopy(self, value: Any) -> Any:  # noqa: ANN401 - whatever a module holds
        with self._watch():
            return copy.deepcopy(value, self._memo)

    def _dictionary(self, value: dict[Any, Any]) -> dict[Any, Any]:
        twin = type(value)()
        self._memo[id(value)] = twin
        for key, item in value.items():
            twin[key if type(key) in _ATOMS else self.copy(key)] = self.copy(item)
        return twin

    def _parameter(self, value: nn.Parameter) -> nn.Parameter:
        twin = self._memo[id(value)] = nn.Parameter(self._move(value), value.requires_grad)
        return twin

    def _module(self, module: nn.Module) -> Any:  # noqa: ANN401 - of the module's own class
        kind = type(module)
        if kind not in self._is_plain:
            self._is_plain[kind] = _is_plain(kind)
        # In Python 3.10 only classes that define it have one.
        state = getattr(kind, "__getstate__", vars)(module) if self._is_plain[kind] else None
        if type(state) is not dict:
            return self._deepcopy(module)
        self._kept.append(state)
        twin = self._memo[id(module)] = kind.__new__(kind)
        own = {
            key: type(value)() if key in _BOOKKEEPING and _is_empty(value) else self.copy(value)
            for key, value in state.items()
        }
        twin.__setstate__(own)  # type: ignore[no-untyped-call] # torch leaves it so
        return twin


def _is_empty(value: object) -> bool:
    return type(value) in _CONTAINERS and not value


def _is_plain(kind: type) -> bool:
    """Say whether deepcopy would make an empty object of a class and give it a copy of the state.

    A class may say how else it is copied: by ``__deepcopy__``, by a way of its own to be reduced or made, or in
    copyreg's table.
    """
    return not (
        kind in copyreg.dispatch_table
        or any(hasattr(kind, name) for name in _OTHER_WAYS)
        or any(getattr(kind, name) is not getattr(object, name) for name in ("__reduce_ex__", "__reduce__"))
    )
