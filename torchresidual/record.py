"""Record: the start of a skip."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from torchresidual.epoch import bump
from torchresidual.errors import ConfigurationError
from torchresidual.frame import current_frame, recalled_alone, remember_alone
from torchresidual.hooked import Hookable
from torchresidual.memory import copied


class Record(Hookable):
    """Save the current tensor, for an Apply further on in the same forward.

    Args:
        need_projection: Whether an Apply may project the tensor where its sizes differ from the current ones.
        name: What an Apply calls it by. None gives it ``record_N``, N its number among the Records of its block
            (the next free one, if that is taken); the name follows when the block is edited.

    Shape:
        Any; the output is the input.

    Raises:
        ConfigurationError: If ``name`` is neither a non-empty string nor None, or ``need_projection`` is a string.

    Example:
        >>> from torch import nn
        >>> from torchresidual import Apply, Record, ResidualSequential
        >>> block = ResidualSequential(Record(name="r"), nn.Identity(), Apply(record_name="r"))
        >>> block(torch.ones(2))
        tensor([2., 2.])
    """

    def __init__(self, need_projection: bool = False, name: str | None = None) -> None:
        super().__init__()
        self._need_projection = _checked_flag(need_projection)
        self._given_name = _checked_name(name)
        self._automatic_name: str | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "forward":  # a patch: blocks that read this Record by position must call it now
            bump()

    @property
    def name(self) -> str | None:
        """The name given, or the automatic one once the Record is part of a block."""
        return self._given_name or self._automatic_name

    @name.setter
    def name(self, name: str | None) -> None:
        self._given_name = _checked_name(name)
        bump()

    @property
    def need_projection(self) -> bool:
        """Whether an Apply may project the tensor."""
        return self._need_projection

    @need_projection.setter
    def need_projection(self, need_projection: bool) -> None:
        self._need_projection = _checked_flag(need_projection)
        bump()

    @property
    def recorded_tensor(self) -> Tensor | None:
        """What this Record saw when it was called on its own in this thread, while that tensor is alive."""
        return recalled_alone(self)

    @property
    def recorded_shape(self) -> torch.Size | None:
        """The shape of ``recorded_tensor``."""
        tensor = self.recorded_tensor
        return None if tensor is None else tensor.shape

    def forward(self, x: Tensor) -> Tensor:
        """Save ``x`` in the forward that is running and return it."""
        frame = current_frame()
        if frame is None:
            if isinstance(x, Tensor):
                remember_alone(self, x)
            return x
        path, frame.path = frame.path, None
        name = frame.plan.names.get(id(self)) or self.name or ""
        frame.show(self, name, x, path or "")
        if path is None and id(self) in frame.plan.guarded:
            # Called by a container, which does not watch the in-place layers that follow: give them a copy.
            return cast("Tensor", copied(x))
        return x

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "_given_name" not in state:  # pickled by torchresidual 0.1.0
            state = dict(state)
            state["_given_name"] = state.pop("name", None)
            state["_need_projection"] = state.pop("need_projection", False)
            state["_automatic_name"] = None
            for forgotten in ("recorded_tensor", "recorded_shape"):
                state.pop(forgotten, None)
        super().__setstate__(state)  # type: ignore[no-untyped-call]  # torch leaves it so

    def __repr__(self) -> str:
        return f"Record(need_projection={self.need_projection}, name={self.name!r})"


def _checked_flag(need_projection: bool) -> bool:
    if isinstance(
        need_projection, str
    ):  # the first argument of torchresidual 0.1.0 is this one, not the name
        raise ConfigurationError(
            f"need_projection must be True or False, found {need_projection!r}; for a name write "
            f"name={need_projection!r}",
            subject="Record",
        )
    return bool(need_projection)


def _checked_name(name: str | None) -> str | None:
    if name is None or (name and isinstance(name, str)):
        return name
    raise ConfigurationError(f"name must be a non-empty string or None, found {name!r}", subject="Record")
