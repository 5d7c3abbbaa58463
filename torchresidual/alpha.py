"""LearnableAlpha: a learned scalar that cannot leave its bounds."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from torchresidual.errors import ConfigurationError
from torchresidual.hooked import Hookable
from torchresidual.tracing import is_proxy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# A start at a bound would need an infinite raw value; tanh(raw) = 0.999 starts 0.05% of the range inside.
_TANH_AT_BOUND = 0.999
# The largest |tanh| that a start strictly inside the bounds may ask for; beyond it fp32 cannot tell it from 1.
_TANH_LIMIT = 1 - 1e-6
_FLOAT32_MAX = 3.4028234663852886e38
# Above this ratio of the bounds the value is learned on a logarithmic scale, unless the caller decides.
_LOG_SPACE_RATIO = 100.0
# The default start is clipped to the bounds, as in LearnableAlpha(max_value=0.5), where a start that somebody
# typed is refused. Only by being this very object can it be told from a 1.0 of the caller's.
_DEFAULT_START = float("1")


class LearnableAlpha(Hookable):
    """A learned scalar between two bounds, for the weight of a skip.

    One unbounded raw parameter goes through tanh onto the range, or onto the logarithm of the range: with
    ``t = tanh(raw)`` the value is ``mid + half * t``, in log space ``exp(mid + half * t)`` with ``mid`` and
    ``half`` taken from the logarithms of the bounds. It is computed in fp32 or wider and clamped, so that
    rounding never leaves the bounds.

    Args:
        initial_value: The value before training; left out, it is 1, or the bound next to it. A start at a bound
            begins 0.05% of the range inside, where tanh still has a gradient (0.002 of its largest).
        min_value: The lower bound.
        max_value: The upper bound.
        use_log_space: Whether equal steps of the raw parameter are equal ratios of the value. None means:
            if both bounds are positive and ``max_value / min_value`` is above 100.

    Shape:
        ``param`` has shape (1,), since sharding libraries refuse scalars; the value is a 0-dim tensor.

    Raises:
        ConfigurationError: For bounds or a start that are not finite, in the wrong order, or outside; for log
            space with a lower bound that is not positive. It is a ValueError.

    Example:
        >>> alpha = LearnableAlpha(0.3, min_value=0.0, max_value=1.0)
        >>> round(alpha().item(), 6)
        0.3
        >>> LearnableAlpha(0.01, min_value=1e-4, max_value=1.0).use_log_space
        True
    """

    min_val: Tensor
    max_val: Tensor
    use_log: Tensor

    def __init__(
        self,
        initial_value: float = _DEFAULT_START,
        min_value: float = 0.0,
        max_value: float = 1.0,
        use_log_space: bool | None = None,
    ) -> None:
        super().__init__()
        low, high = _checked_bounds(min_value, max_value)
        if use_log_space is None:
            use_log_space = low > 0 and high / low > _LOG_SPACE_RATIO
        if use_log_space and low <= 0:
            raise ConfigurationError(
                f"log space needs a lower bound above 0, found min_value={low:g}; raise it or pass use_log_space=False",
                subject="LearnableAlpha",
            )
        self._start = (_checked_start(initial_value, low, high), low, high, bool(use_log_space))
        self.param: nn.Parameter = nn.Parameter(torch.empty(1))
        self.register_buffer("min_val", torch.empty(()))
        self.register_buffer("max_val", torch.empty(()))
        self.register_buffer("use_log", torch.empty((), dtype=torch.bool))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Restore start value and bounds, for instance after ``to_empty``."""
        start, low, high, log = self._start
        with torch.no_grad():
            self.param.fill_(_raw_of(start, low, high, log=log))
            self.min_val.fill_(low)
            self.max_val.fill_(high)
            self.use_log.fill_(log)
        self._set_mapping(low, high, log=log)

    def _set_mapping(self, low: float, high: float, *, log: bool) -> None:
        """Derive what the computation needs as Python numbers, so that it never waits for a device."""
        self.use_log_space = log
        self._bounds = {"min_val": low, "max_val": high}
        first, last = (math.log(low), math.log(high)) if log else (low, high)
        self._middle, self._half = (first + last) / 2, (last - first) / 2
        # fp32 cannot hold most bounds exactly: clamp to the nearest fp32 numbers that lie inside.
        self._clamp_low, self._clamp_high = _float32_inside(low, up=True), _float32_inside(high, up=False)

    def forward(self) -> Tensor:
        """Return the value: a 0-dim tensor in fp32 or wider, inside the bounds."""
        raw: Tensor = self.param
        if not is_proxy(raw) and raw.dtype in (torch.float16, torch.bfloat16):
            raw = raw.float()
        value = torch.tanh(raw).mul(self._half).add(self._middle)
        if self.use_log_space:
            value = value.exp()
        return value.clamp(self._clamp_low, self._clamp_high).squeeze(0)

    if TYPE_CHECKING:  # a module's call takes anything; this one takes nothing

        def __call__(self) -> Tensor:
            """Return the value."""
            ...

    @property
    def saturation(self) -> float:
        """How far the raw parameter has gone: ``|tanh(raw)|``, 1 means that no gradient is left."""
        return float(torch.tanh(self.param.detach().float()).abs())

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> LearnableAlpha:
        """Move everything, but keep the bounds in fp32: half precision would round them."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]  # torch leaves it so
        for name in ("min_val", "max_val"):
            bound = self._buffers[name]
            if bound is not None and bound.dtype != torch.float32:
                exact = self._bounds[name]
                self._buffers[name] = torch.full((), exact, dtype=torch.float32, device=bound.device)
        return self

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
        """Take over the saved bounds and mapping with the raw value: it means nothing without them."""
        raw = state_dict.get(prefix + "param")
        if isinstance(raw, Tensor) and raw.dim() == 0:
            state_dict[prefix + "param"] = raw.reshape(1)
        mapping = _saved_mapping(state_dict, prefix)
        if mapping is not None and not _is_usable(*mapping):
            # Said before anything is copied: half a mapping would silently mean another value.
            error_msgs.append(
                f"{prefix}min_val, max_val and use_log were saved as {mapping}; expected min_val < max_val, "
                "and min_val > 0 in log space"
            )
            return
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
        if mapping is not None:
            self._set_mapping(mapping[0], mapping[1], log=mapping[2])

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]  # torch leaves it so
        param = self._parameters["param"]
        if param is not None and param.dim() == 0:  # pickled by torchresidual 0.1.0
            self._parameters["param"] = nn.Parameter(param.detach().reshape(1), param.requires_grad)
        if "_start" not in self.__dict__:
            low, high, log = float(self.min_val), float(self.max_val), bool(self.use_log)
            self._set_mapping(low, high, log=log)
            self._start = (min(max(float(self.forward().detach()), low), high), low, high, log)

    def __float__(self) -> float:
        return float(self().detach())

    def __mul__(self, other: Any) -> Any:
        return self() * other

    def __rmul__(self, other: Any) -> Any:
        return other * self()

    def __add__(self, other: Any) -> Any:
        return self() + other

    def __radd__(self, other: Any) -> Any:
        return other + self()

    def __sub__(self, other: Any) -> Any:
        return self() - other

    def __rsub__(self, other: Any) -> Any:
        return other - self()

    def __truediv__(self, other: Any) -> Any:
        return self() / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / self()

    def __pow__(self, other: Any) -> Any:
        return self() ** other

    def __rpow__(self, other: Any) -> Any:
        return other ** self()

    def __neg__(self) -> Tensor:
        return -self()

    def __repr__(self) -> str:
        space = "log" if self.use_log_space else "linear"
        bounds = f"[{self._bounds['min_val']:g}, {self._bounds['max_val']:g}]"
        # Printing must not start a collective: another rank may not print.
        hidden = "meta" if self.param.is_meta else "sharded" if hasattr(self.param, "full_tensor") else ""
        value = hidden or f"{float(self):.4f}"
        return f"LearnableAlpha(value={value}, space={space}, bounds={bounds})"


def _checked_bounds(low: float, high: float) -> tuple[float, float]:
    low, high = _number("min_value", low), _number("max_value", high)
    if not (abs(low) <= _FLOAT32_MAX and abs(high) <= _FLOAT32_MAX):  # also refuses NaN
        raise ConfigurationError(
            f"bounds must be finite fp32 numbers, found min_value={low}, max_value={high}",
            subject="LearnableAlpha",
        )
    if not low < high or _float32_inside(low, up=True) > _float32_inside(high, up=False):
        raise ConfigurationError(
            f"min_value must be less than max_value, found min_value={low:g}, max_value={high:g}",
            subject="LearnableAlpha",
        )
    return low, high


def _number(name: str, value: float) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"{name} must be a number, found {value!r}", subject="LearnableAlpha"
        ) from error


def _checked_start(start: float, low: float, high: float) -> float:
    if start is _DEFAULT_START:
        return min(max(start, low), high)
    start = _number("initial_value", start)
    if not low <= start <= high:  # also refuses NaN
        raise ConfigurationError(
            f"initial_value must lie in [{low:g}, {high:g}], found {start:g}; change it or the bounds",
            subject="LearnableAlpha",
        )
    return start


def _raw_of(start: float, low: float, high: float, *, log: bool) -> float:
    """Return the raw parameter whose value is ``start``."""
    at_bound = start in (low, high)
    if log:
        start, low, high = math.log(start), math.log(low), math.log(high)
    tanh = (2 * start - low - high) / (high - low)
    limit = _TANH_AT_BOUND if at_bound else _TANH_LIMIT
    return math.atanh(min(max(tanh, -limit), limit))


def _float32_inside(bound: float, *, up: bool) -> float:
    """Return the fp32 number nearest to a bound on its inner side, as a Python float.

    In plain Python, since a tensor made here would live on the meta device or be fake where the caller says so.
    """
    nearest = float(struct.unpack("<f", struct.pack("<f", bound))[0])
    step = max(math.ldexp(1.0, math.frexp(nearest)[1] - 24), 2.0**-149)
    if up:
        return nearest if nearest >= bound else nearest + step
    return nearest if nearest <= bound else nearest - step


def _is_usable(low: float, high: float, log: bool) -> bool:
    return low < high and not (log and low <= 0)


def _saved_mapping(state: Mapping[str, Any], prefix: str) -> tuple[float, float, bool] | None:
    """Return (low, high, log) of a saved state, or None where it is incomplete or holds no data."""
    saved = [state.get(prefix + name) for name in ("min_val", "max_val", "use_log")]
    if not all(isinstance(value, Tensor) and not value.is_meta and value.numel() == 1 for value in saved):
        return None
    low, high, log = (cast("Tensor", value).item() for value in saved)
    return float(low), float(high), bool(log)
