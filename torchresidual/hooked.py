"""Modules that a block runs without calling them, as long as nobody has hooked them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn

from torchresidual.epoch import bump

if TYPE_CHECKING:
    from torch.utils.hooks import RemovableHandle


class Hookable(nn.Module):
    """A module whose blocks hear of a new hook at once, so that they need not look for one at each call."""

    def register_forward_hook(self, *args: Any, **kwargs: Any) -> RemovableHandle:
        """As ``nn.Module.register_forward_hook``."""
        return _noted(super().register_forward_hook(*args, **kwargs))

    def register_forward_pre_hook(self, *args: Any, **kwargs: Any) -> RemovableHandle:
        """As ``nn.Module.register_forward_pre_hook``."""
        return _noted(super().register_forward_pre_hook(*args, **kwargs))

    def register_backward_hook(self, *args: Any, **kwargs: Any) -> RemovableHandle:
        """As ``nn.Module.register_backward_hook``."""
        return _noted(super().register_backward_hook(*args, **kwargs))

    def register_full_backward_hook(self, *args: Any, **kwargs: Any) -> RemovableHandle:
        """As ``nn.Module.register_full_backward_hook``."""
        return _noted(super().register_full_backward_hook(*args, **kwargs))

    def register_full_backward_pre_hook(self, *args: Any, **kwargs: Any) -> RemovableHandle:
        """As ``nn.Module.register_full_backward_pre_hook``."""
        return _noted(super().register_full_backward_pre_hook(*args, **kwargs))


def _noted(handle: RemovableHandle) -> RemovableHandle:
    bump()
    return handle
