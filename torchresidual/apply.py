"""Apply: the end of a skip."""

from __future__ import annotations

import math
import numbers
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from torchresidual.alpha import LearnableAlpha
from torchresidual.arguments import checked_dim, checked_operation, checked_record_name
from torchresidual.bridging import bridged, feature_dim, gated_by
from torchresidual.epoch import bump
from torchresidual.errors import (
    ConfigurationError,
    InPlaceError,
    OutsideBlockError,
    ResidualError,
    ShapeError,
)
from torchresidual.frame import Frame, RecordedTensor, current_frame
from torchresidual.hooked import Hookable
from torchresidual.legacy import accept_legacy, modern_state
from torchresidual.memory import version_of
from torchresidual.mismatch import broadcasts, not_combined, not_joined, unknown_record
from torchresidual.operations import OPERATIONS, Weight
from torchresidual.projection import Unsettled
from torchresidual.tracing import is_proxy

Coefficient = float | LearnableAlpha | Tensor

# What plans are made from; once an Apply is built, setting one of these makes them out of date.
_PLANNED = frozenset({"alpha", "scale", "projection_layer", "gate_layer", "dim", "settled_dim", "forward"})


class Apply(Hookable):
    """Combine the current tensor ``x`` with a recorded tensor ``r``.

    Args:
        operation: ``"add"`` gives ``x + a*r``; ``"concat"`` puts r behind x along the features; ``"multiply"``
            gives ``x * (1 + a*r)``; ``"gated"`` gives ``(1-a)*x + a*r``; ``"highway"`` gives ``T*x + C*r`` with
            two learned gates.
        record_name: Which Record to use. None means the latest one executed in the same block, else in the
            enclosing one.
        alpha: The weight ``a`` of the recorded tensor: a number, a LearnableAlpha, or a tensor or Parameter
            that broadcasts to x. concat and highway do not use it.
        scale: The weight of the current tensor, which is replaced by ``scale * x`` before the operation. It
            takes what alpha takes: ReZero (https://arxiv.org/abs/2003.04887), SkipInit
            (https://arxiv.org/abs/2002.10444) and LayerScale (https://arxiv.org/abs/2103.17239) learn it,
            DeepNorm (https://arxiv.org/abs/2203.00555) weighs the skip by a constant alpha instead.
        projection: A module of your own for the skip, for instance a strided 1x1 convolution with its
            BatchNorm. It is always applied, whatever the Record's ``need_projection`` says.
        dim: The feature dimension, for concat, projection and gates. None means that the layers around tell.

    Shape:
        x: any; the output has the shape of x, except for concat. The recorded tensor may broadcast to x, never
        the other way round.

    Raises:
        ConfigurationError: For an unknown operation, or arguments of the wrong type. It is a ValueError.

    Example:
        >>> import torch
        >>> from torchresidual import Record, ResidualSequential
        >>> block = ResidualSequential(Record(), torch.nn.ReLU(), Apply("gated", alpha=0.25))
        >>> block(torch.tensor([-4.0, 8.0]))
        tensor([-1.,  8.])
    """

    alpha: Coefficient
    scale: Coefficient
    projection_layer: nn.Module | None
    gate_layer: nn.Module | None
    # To tell states of this library from those of 0.1.0, which carry no version.
    _version = 2

    def __init__(
        self,
        operation: str = "add",
        record_name: str | None = None,
        alpha: Coefficient = 1.0,
        *,
        scale: Coefficient = 1.0,
        projection: nn.Module | None = None,
        dim: int | None = None,
    ) -> None:
        super().__init__()
        self._operation = checked_operation(operation)
        self._record_name = checked_record_name(record_name)
        self._set_coefficient("alpha", alpha)
        self._set_coefficient("scale", scale)
        if projection is not None and not isinstance(projection, nn.Module):
            raise ConfigurationError(
                f"projection must be a module or None, found {projection!r}", subject="Apply"
            )
        self.register_module("projection_layer", projection)
        self.projection_given = projection is not None
        self.register_module("gate_layer", None)
        self.dim = checked_dim(dim)
        self.settled_dim: int | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        # Neither while it is built nor while torch puts the children of a DataParallel replica together.
        is_edit = (
            name in _PLANNED
            and "settled_dim" in self.__dict__
            and not getattr(self, "_is_replica", False)
            and (name == "forward" or getattr(self, name, None) is not value)
        )
        super().__setattr__(name, value)
        if is_edit:
            bump()

    def _set_coefficient(self, name: str, value: Coefficient) -> None:
        if isinstance(value, numbers.Real):
            if math.isnan(float(value)):
                raise ConfigurationError(f"{name} must be a number, found nan", subject="Apply")
            # An integer stays one: 2 * r of integers is integers.
            setattr(self, name, value if type(value) is int else float(value))
        elif isinstance(value, LearnableAlpha | nn.Parameter):
            setattr(self, name, value)
        elif isinstance(value, Tensor):
            self.register_buffer(name, value)
        else:
            raise ConfigurationError(
                f"{name} must be a number, a LearnableAlpha, a tensor or a Parameter, found {value!r}",
                subject="Apply",
            )

    @property
    def operation(self) -> str:
        """The operation: add, concat, multiply, gated or highway."""
        return self._operation

    @operation.setter
    def operation(self, operation: str) -> None:
        self._operation = checked_operation(operation)
        bump()

    @property
    def record_name(self) -> str | None:
        """Which Record to use; None for the latest."""
        return self._record_name

    @record_name.setter
    def record_name(self, record_name: str | None) -> None:
        self._record_name = checked_record_name(record_name)
        bump()

    def forward(self, x: Tensor) -> Tensor:
        """Combine ``x`` with the tensor that the forward now running has recorded."""
        name = ""
        try:
            entry = self.find_recorded(current_frame())
            name = entry.name
            if entry.version != version_of(entry.tensor):
                raise InPlaceError(
                    f"a layer changed the tensor recorded as {name!r} in place; let it make a new tensor "
                    "(x = x + 1, not x += 1)",
                    subject=repr(self),
                )
            result: Tensor = self.combine(x, entry.tensor, entry.record.need_projection)
        except ResidualError as error:
            error.origin, error.record = self, name
            raise
        return result

    def find_recorded(self, frame: Frame | None) -> RecordedTensor:
        """Return what this Apply reads at this moment.

        Args:
            frame: The frame of the call that is running.

        Raises:
            OutsideBlockError: If there is none.
            UnknownRecordError: If no Record of that name is in reach.
        """
        if frame is None:
            raise OutsideBlockError(
                "it only works inside a ResidualSequential, which holds the recorded tensors; put it and its "
                "Record into one (a slice of a block stays one, nn.Sequential(*block) and the pieces that "
                "checkpoint_sequential cuts do not)",
                subject=repr(self),
            )
        entry = frame.find(self._record_name)
        if entry is None:
            raise unknown_record(self, frame)
        return entry

    def combine(self, x: Any, r: Any, need_projection: bool) -> Any:
        """Return the result of the operation.

        Args:
            x: The current tensor, or a PackedSequence.
            r: The recorded one.
            need_projection: Whether the Record allows a projection.

        Raises:
            ShapeError: If the two cannot be combined.
        """
        if type(x) is not Tensor or type(r) is not Tensor:
            if isinstance(x, PackedSequence) or isinstance(r, PackedSequence):
                return self._combine_packed(x, r, need_projection)
            if not (is_proxy(x) or (isinstance(x, Tensor) and isinstance(r, Tensor))):
                raise ShapeError(
                    f"needs tensors on both ends of the skip, found {type(r).__name__} at the Record and "
                    f"{type(x).__name__} here",
                    subject=repr(self),
                )
        if self.__dict__.get("scale") != 1.0:
            x = self._value_of("scale", x) * x
        recorded = r
        if self._modules["projection_layer"] is not None:
            r = bridged(self, x, r)
        return self.operate(x, r, recorded, need_projection)

    def operate(self, x: Tensor, r: Tensor, recorded: Tensor, need_projection: bool) -> Tensor:
        """Return the result of the operation on tensors that scale and projection have been through.

        Args:
            x: The current tensor, scaled.
            r: The recorded one after its projection.
            recorded: The recorded one, for messages.
            need_projection: Whether the Record allows a projection.

        Raises:
            ShapeError: If the two cannot be combined.
        """
        traced = type(x) is not Tensor and is_proxy(
            x
        )  # shapes are not known then, and nothing can be checked
        operation = OPERATIONS[self._operation]
        if operation.joins:
            return self._joined(x, r)
        if not traced and r.shape != x.shape and not broadcasts(r.shape, x.shape):
            raise not_combined(self, x, recorded, r, need_projection)
        if operation.weighted is None:
            return gated_by(self, x, r)
        alpha = self._value_of("alpha", x)
        if traced and isinstance(alpha, float | int):
            alpha = torch.tensor(alpha, dtype=torch.float64)  # for a tensor the plain formula is written down
        return operation.weighted(x, r, alpha)

    def _value_of(self, name: str, x: Tensor) -> Weight:
        """Return alpha or scale as a float or a tensor that does not grow x."""
        value: Coefficient = getattr(self, name)
        if isinstance(value, float | int):
            return value
        if isinstance(value, LearnableAlpha):
            return value()
        if not (isinstance(value, Tensor) or is_proxy(value)):  # assigned after construction
            raise ConfigurationError(
                f"{name} must be a number, a LearnableAlpha, a tensor or a Parameter, found {value!r}",
                subject=repr(self),
            )
        if not is_proxy(x) and not broadcasts(value.shape, x.shape):
            raise ShapeError(
                f"{name} of shape {tuple(value.shape)} does not broadcast to x {tuple(x.shape)}",
                subject=repr(self),
            )
        return value

    def _joined(self, x: Tensor, r: Tensor) -> Tensor:
        dim = feature_dim(self, x, r)
        try:
            return torch.cat((x, r), dim)
        except RuntimeError as error:
            if x.dim() == r.dim() and all(
                a == b for i, (a, b) in enumerate(zip(x.shape, r.shape, strict=True)) if i != dim % x.dim()
            ):
                raise
            raise not_joined(self, x, r, dim) from error

    def _combine_packed(self, x: object, r: object, need_projection: bool) -> PackedSequence:
        """Work on the data of two packed sequences of the same lengths in the same order."""
        if not (isinstance(x, PackedSequence) and isinstance(r, PackedSequence)):
            raise ShapeError(
                f"one end of the skip is a PackedSequence, the other is not: {type(r).__name__} at the Record, "
                f"{type(x).__name__} here",
                subject=repr(self),
            )
        same_order = x.sorted_indices is r.sorted_indices or (
            x.sorted_indices is not None
            and r.sorted_indices is not None
            and torch.equal(x.sorted_indices, r.sorted_indices)
        )
        if not (torch.equal(x.batch_sizes, r.batch_sizes) and same_order):
            raise ShapeError(
                "the two packed sequences have other lengths or another order", subject=repr(self)
            )
        data = self.combine(x.data, r.data, need_projection)
        return PackedSequence(data, x.batch_sizes, x.sorted_indices, x.unsorted_indices)

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Accept what torchresidual 0.1.0 saved, whose states carry no version of ours."""
        if (local_metadata.get("version") or 1) < self._version:
            error_msgs.extend(accept_legacy(self, state_dict, prefix))
        elif isinstance(self.projection_layer, Unsettled) and not _has_any(
            state_dict, f"{prefix}projection_layer."
        ):
            # The first call of the saved block found that nothing needs projecting; neither does this one.
            self.projection_layer = None
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "_operation" not in state:  # pickled by torchresidual 0.1.0
            state = modern_state(state)
        super().__setstate__(state)  # type: ignore[no-untyped-call]  # torch leaves it so

    def __repr__(self) -> str:
        parts = [f"operation={self._operation!r}", f"record_name={self._record_name!r}"]
        parts.append(f"alpha={_coefficient_text(self.alpha)}")
        if not (isinstance(self.scale, float) and self.scale == 1.0):
            parts.append(f"scale={_coefficient_text(self.scale)}")
        if self.projection_layer is not None:
            parts.append(
                f"{'projection' if self.projection_given else 'inserted'}={_short(self.projection_layer)}"
            )
        if self.dim is not None:
            parts.append(f"dim={self.dim}")
        return f"Apply({', '.join(parts)})"


def _has_any(state_dict: dict[str, Any], prefix: str) -> bool:
    return any(key.startswith(prefix) for key in state_dict)


def _short(layer: nn.Module) -> str:
    """Return a layer's type, with its sizes if it is one that is inserted."""
    weight = layer._parameters.get("weight")
    if isinstance(layer, Unsettled) or layer._modules or weight is None or weight.dim() < 2:
        return type(layer).__name__
    return f"{type(layer).__name__}({weight.shape[1]}, {weight.shape[0]})"


def _coefficient_text(value: Coefficient) -> str:
    if isinstance(value, Tensor):
        return f"{type(value).__name__}{tuple(value.shape)}"
    return repr(value)
