"""Building large blocks without their data: 100 billion parameters take no memory on the meta device.

Small blocks are built as if nobody had asked. A block that turns out to be large while it is being built is given up
at the parameter with which it gets too large, and built once more with all but its small tensors on meta.
"""

from __future__ import annotations

import contextlib
import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as registration
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors  # what torch.device("meta") itself asks; not public

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

# Up to here a block is built, and shown, for real: that is quicker than what the first run on meta imports.
MOST_REAL_ELEMENTS = 20_000_000
# Of a large block, tensors of this size keep their values: alphas, scales of layers, the drop rates that a factory
# works out with torch.linspace and reads. All together they stay below what anybody would notice.
_SMALL_TENSOR = 16_384
_MOST_SMALL_ELEMENTS = 4_000_000


def build_large_without_data(make: Callable[[], object]) -> object:
    """Call a factory: what it makes has its data if it is small, and none if it is large.

    A factory that cannot do without data, as it reads values or loads weights into arrays, makes its block for real
    however large that is.

    Args:
        make: Makes a block in the same way each time it is called.

    Returns:
        What it returned.

    Raises:
        BaseException: Whatever it raises when nothing stands in its way.

    Example:
        >>> def huge():
        ...     return nn.Sequential(*(nn.Linear(100_000, 100_000) for _ in range(10)))
        >>> sum(each.numel() for each in build_large_without_data(huge).parameters())
        100001000000
    """
    limit = _Limit()
    try:
        with limit.watched():
            built = make()
    except BaseException as error:
        # What a factory makes of our exception is not its own mistake.
        if isinstance(error, KeyboardInterrupt) or not (limit.is_passed or _is_memory_short(error)):
            raise
    else:
        if not limit.is_passed:
            return built
    return _without_data(make)


def _without_data(make: Callable[[], object]) -> object:
    """Call a factory with large tensors on meta, or if that fails all of them, or in the end none."""
    for mode in (_LargeOnMeta(), torch.device("meta")):
        # Torch warns of weights that are loaded into parameters without data.
        with warnings.catch_warnings(), contextlib.suppress(Exception), mode:
            warnings.simplefilter("ignore")
            return make()
    return make()


class _TooLargeError(BaseException):
    """Ends a factory; no ``except Exception`` of its own is to take it for an error."""


class _Limit:
    """Counts what modules are given as parameters and buffers."""

    def __init__(self) -> None:
        self.is_passed = False
        self._elements = 0

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Raise where too much has been registered.

        Torch registers a parameter when it has memory but before it has values: memory that nobody has written to
        is only promised by the system.
        """
        hooks = [
            registration.register_module_parameter_registration_hook(self._count),
            registration.register_module_buffer_registration_hook(self._count),
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _count(self, _module: nn.Module, _name: str, tensor: Tensor | None) -> None:
        if tensor is None or tensor.is_meta or is_lazy(tensor):
            return
        self._elements += tensor.numel()
        if self._elements > MOST_REAL_ELEMENTS:
            self.is_passed = True
            raise _TooLargeError


def _is_memory_short(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and "allocate memory" in str(error)
    )


class _LargeOnMeta(TorchFunctionMode):
    """Gives new tensors their data only while they are small."""

    def __init__(self) -> None:
        super().__init__()
        self._constructors = _device_constructors()
        self._real_elements = 0

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - whatever the function returns
        kwargs = kwargs or {}
        if func in self._constructors and kwargs.get("device") is None and "out" not in kwargs:
            # A generator belongs to a device.
            own = {key: value for key, value in kwargs.items() if key != "generator"}
            sized = func(*args, **{**own, "device": "meta"})
            if sized.numel() > _SMALL_TENSOR or self._real_elements + sized.numel() > _MOST_SMALL_ELEMENTS:
                return sized
            self._real_elements += sized.numel()
        return func(*args, **kwargs)
