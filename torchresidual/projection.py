"""The layers that bridge a difference of sizes: projections of a skip, and the gates of a highway.

Where both sizes are known at construction they are ordinary layers (``nn.Linear``, or a 1x1 convolution with the
stride of the branch). Where they are not, they hold PyTorch's own uninitialized parameters, so that an optimizer
already has the objects that are filled later; ``settle`` turns them into the ordinary layer by swapping their class,
as ``nn.LazyLinear`` does.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter, is_lazy

from torchresidual.errors import ShapeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Settling sizes is the only write that a forward may do. The lock belongs to the library: a lock on a module would
# make it impossible to pickle, and first calls are rare.
SETTLING = threading.RLock()

_CONVOLUTIONS: dict[int, type[nn.Module]] = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
# Highway gates start mostly closed for the branch and open for the skip (Srivastava et al. 2015, section 2.2).
TRANSFORM_START = -1.0
CARRY_START = 1.0


@dataclass(frozen=True, slots=True)
class Placement:
    """Dtype and device of new parameters; None means torch's default."""

    dtype: torch.dtype | None = None
    device: torch.device | None = None


def placement_of(layer: nn.Module) -> Placement | None:
    """Return where the parameters of a layer live, or None if it has none of a floating dtype."""
    for parameter in layer.parameters():
        if parameter.is_floating_point():
            return Placement(parameter.dtype, parameter.device)
    return None


@dataclass(frozen=True, slots=True)
class Bridge:
    """Which layer takes features from one size to another.

    Args:
        size_in: Features of its input.
        size_out: Features of its output.
        spatial: None for a Linear over the feature dimension; else a 1x1 convolution over so many dimensions.
        stride: Of the convolution; () means 1.
    """

    size_in: int
    size_out: int
    spatial: int | None = None
    stride: tuple[int, ...] = ()

    @property
    def needed(self) -> bool:
        """Whether there is a difference to bridge."""
        return self.size_in != self.size_out or any(step != 1 for step in self.stride)

    def fits(self, layer: nn.Module) -> bool:
        """Say whether a layer is what this bridge would make."""
        if isinstance(layer, nn.Linear):
            return self.spatial is None and layer.weight.shape == self.weight_shape()
        return (
            self.spatial is not None
            and isinstance(layer, _CONVOLUTIONS[self.spatial])
            and layer.weight.shape == self.weight_shape()
            and layer.stride == (self.stride or (1,) * self.spatial)
        )

    def kind(self, gate_start: float | None) -> tuple[type[nn.Module], dict[str, Any]]:
        """Return the class of the layer and the arguments to make it with."""
        if self.spatial is None:
            arguments = {"in_features": self.size_in, "out_features": self.size_out}
            return (nn.Linear if gate_start is None else LinearGate), arguments
        plain, gate = _CONVOLUTIONS[self.spatial], _GATES[self.spatial]
        arguments = {
            "in_channels": self.size_in,
            "out_channels": self.size_out,
            "kernel_size": 1,
            "stride": self.stride or 1,  # type: ignore[dict-item]
        }
        return (plain if gate_start is None else gate), arguments

    def weight_shape(self) -> tuple[int, ...]:
        """Return the shape of the layer's weight."""
        return (self.size_out, self.size_in) + (1,) * (self.spatial or 0)


class Gate(nn.Module):
    """One gate of a highway: a layer whose bias starts at a chosen value, also after ``reset_parameters``."""

    def __init__(self, *args: Any, start: float, **kwargs: Any) -> None:
        self.start = start
        super().__init__(*args, **kwargs)

    def reset_parameters(self) -> None:
        """Draw the weight anew and restore the start of the bias."""
        super().reset_parameters()  # type: ignore[misc]  # the layer mixed in has it
        nn.init.constant_(self.get_parameter("bias"), self.start)


class LinearGate(Gate, nn.Linear):
    """A gate over features in one dimension."""


class ConvGate1d(Gate, nn.Conv1d):
    """A gate over channels of a sequence."""


class ConvGate2d(Gate, nn.Conv2d):
    """A gate over channels of a picture."""


class ConvGate3d(Gate, nn.Conv3d):
    """A gate over channels of a volume."""


_GATES: dict[int, type[nn.Module]] = {1: ConvGate1d, 2: ConvGate2d, 3: ConvGate3d}


class HighwayGates(nn.Module):
    """The two gates of a highway (Srivastava et al. 2015, https://arxiv.org/abs/1505.00387).

    Args:
        transform_gate: Weighs the current tensor.
        carry_gate: Weighs the recorded tensor.
    """

    def __init__(self, transform_gate: nn.Module, carry_gate: nn.Module) -> None:
        super().__init__()
        self.transform_gate = transform_gate
        self.carry_gate = carry_gate


class Unsettled(nn.Module):
    """A layer whose sizes are not known yet: weight and bias are uninitialized parameters.

    Args:
        gate_start: Start of the bias if it is a gate, else None.
        placement: Dtype and device of the parameters.
        stride: The stride of the branch, () for 1, where the layers tell it; else None.
    """

    weight: nn.Parameter
    bias: nn.Parameter

    def __init__(
        self,
        gate_start: float | None = None,
        *,
        placement: Placement,
        stride: tuple[int, ...] | None = None,
    ) -> None:
        super().__init__()
        self.gate_start = gate_start
        self.stride = stride
        for name in ("weight", "bias"):
            parameter = UninitializedParameter(dtype=placement.dtype, device=placement.device)  # type: ignore[call-arg]  # torch's stub lacks them
            setattr(self, name, parameter)

    def extra_repr(self) -> str:
        """Say that the sizes are open."""
        return "sizes not known yet"

    def reset_parameters(self) -> None:
        """Do nothing: there is nothing to draw before the sizes are known."""

    def forward(self, _: Tensor) -> Tensor:
        """Refuse: an Apply settles its layers before it calls them."""
        raise ShapeError("its sizes are not known yet; run the block once, or materialize(example)")

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Unsettled:
        """Move as the settled layer would; torch itself turns an uninitialized parameter on meta into an empty one."""
        unsettled: dict[str, nn.Parameter] = {}
        for name, parameter in self._parameters.items():
            if isinstance(parameter, UninitializedParameter):
                unsettled[name] = parameter
                self._parameters[name] = None
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]  # torch leaves it so
        for name, parameter in unsettled.items():
            self._parameters[name] = _moved(parameter, fn)
        return self

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        for name, parameter in self._parameters.items():
            if parameter is not None:  # an uninitialized one cannot be detached
                destination[prefix + name] = (
                    parameter if keep_vars or is_lazy(parameter) else parameter.detach()
                )

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Take over saved values; kind and stride of the layer are still settled by the first run."""
        saved = {name: state_dict.get(prefix + name) for name in self._parameters}
        if any(isinstance(value, UninitializedParameter) for value in saved.values()):
            return  # saved before its sizes were known: there is nothing to load
        with torch.no_grad():
            for name, value in saved.items():
                parameter = self._parameters[name]
                if isinstance(value, Tensor) and isinstance(parameter, UninitializedParameter):
                    parameter.materialize(value.shape)
        super()._load_from_state_dict(state_dict, prefix, *args)

    def __getstate__(self) -> dict[str, Any]:
        """Keep dtype and device, which an uninitialized parameter loses when it is pickled."""
        placed = {name: (p.dtype, p.device) for name, p in self._parameters.items() if p is not None}
        return {**self.__dict__, "_placed": placed}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        placed = state.pop("_placed", {})
        super().__setstate__(state)  # type: ignore[no-untyped-call]  # torch leaves it so
        for name, (dtype, device) in placed.items():
            parameter = self._parameters[name]
            if isinstance(parameter, UninitializedParameter):
                parameter.data = parameter.data.to(dtype=dtype, device=device)


def _moved(parameter: nn.Parameter, fn: Callable[[Tensor], Tensor]) -> nn.Parameter:
    """Return an uninitialized parameter as ``fn`` moves tensors: the same object, where a tensor can stay the same."""
    with torch.no_grad():
        moved = fn(torch.empty(0, dtype=parameter.dtype, device=parameter.device))
    if torch._has_compatible_shallow_copy_type(parameter.data, moved):
        parameter.data = moved
        return parameter
    fresh: Any = UninitializedParameter  # torch's stub lacks its arguments
    return cast("nn.Parameter", fresh(parameter.requires_grad, moved.device, moved.dtype))


def build(
    bridge: Bridge,
    *,
    gate_start: float | None = None,
    placement: Placement,
) -> nn.Module:
    """Make the layer of a bridge.

    Args:
        bridge: Sizes and kind.
        gate_start: Start of the bias if the layer is a gate.
        placement: Dtype and device of its parameters.
    """
    cls, arguments = bridge.kind(gate_start)
    if gate_start is not None:
        arguments = {**arguments, "start": gate_start}
    return cls(**arguments, dtype=placement.dtype, device=placement.device)


def settle(layer: Unsettled, bridge: Bridge) -> None:
    """Turn an unsettled layer into the one of a bridge, keeping its parameter objects.

    The class is swapped last, so that another thread sees either an unsettled layer, and waits for the lock, or a
    finished one.

    Raises:
        ShapeError: If values were loaded that have another shape.
    """
    with SETTLING, torch.inference_mode(False), torch.no_grad():
        if type(layer) is not Unsettled:
            return
        drawn = [_shape(layer.weight, bridge.weight_shape()), _shape(layer.bias, (bridge.size_out,))]
        placement = Placement(layer.weight.dtype, layer.weight.device)
        with _own_randomness(layer.weight.device):
            model = build(bridge, gate_start=layer.gate_start, placement=placement)
        del layer.stride
        for name, value in model.__dict__.items():
            layer.__dict__.setdefault(name, value)
        for name, is_new in zip(("weight", "bias"), drawn, strict=True):
            if is_new:
                layer.get_parameter(name).copy_(model.get_parameter(name))
        layer.__class__ = type(model)  # type: ignore[assignment]


def _shape(parameter: nn.Parameter, shape: tuple[int, ...]) -> bool:
    """Give a parameter its shape; return whether its values are still to be drawn."""
    if isinstance(parameter, UninitializedParameter):
        parameter.materialize(shape)
        return True
    if tuple(parameter.shape) != shape:
        raise ShapeError(f"loaded a weight of shape {tuple(parameter.shape)}, this input needs {shape}")
    return False


@contextmanager
def _own_randomness(device: torch.device) -> Iterator[None]:
    """Draw without moving the generators that the user's program draws from."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        yield
