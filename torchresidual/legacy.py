"""States and pickles that torchresidual 0.1.0 left behind.

It made projections and gates in the first forward, so a state saved before that lacks their keys; it always mapped the
last dimension, so in a convolution stack they belong to the width of the picture and cannot be used.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.nn.parameter import is_lazy

from torchresidual.projection import Unsettled

if TYPE_CHECKING:
    from torchresidual.apply import Apply


def accept_legacy(apply: Apply, state_dict: dict[str, Any], prefix: str) -> list[str]:
    """Make a state without a version loadable, and return the reasons why it is not.

    Args:
        apply: What the state is loaded into.
        state_dict: The state; what is missing in it, or cannot be used, is filled in from ``apply``.
        prefix: Where the keys of ``apply`` begin.
    """
    own = {
        f"{prefix}{slot}.{name}": parameter
        for slot in ("projection_layer", "gate_layer")
        for name, parameter in _inserted_parameters(apply, slot)
    }
    projection, gates = f"{prefix}projection_layer.", f"{prefix}gate_layer."
    has_gates, has_projection = (
        any(key.startswith(slot) for key in state_dict) for slot in (gates, projection)
    )
    if isinstance(apply.projection_layer, Unsettled) and has_gates and not has_projection:
        # Saved after a forward, and that needed no projection.
        apply.projection_layer = None
        own = {key: value for key, value in own.items() if not key.startswith(projection)}
    if own and not any(key in state_dict for key in own):
        warnings.warn(
            f"the state lacks {', '.join(own)}, as one that torchresidual 0.1.0 saved before a first forward; they "
            "keep their initialisation",
            UserWarning,
            stacklevel=2,
        )
        state_dict.update(own)
        return []
    reasons = []
    refused = set()
    for key, parameter in own.items():
        saved = state_dict.get(key)
        if isinstance(saved, Tensor) and not is_lazy(parameter) and saved.dim() < parameter.dim():
            reasons.append(
                f"{key} has shape {tuple(saved.shape)}: torchresidual 0.1.0 mapped the last dimension, here a 1x1 "
                f"convolution over channels of shape {tuple(parameter.shape)} is needed; drop the key to start it anew"
            )
            refused.add(key.rpartition(".")[0])
    state_dict.update({key: own[key] for key in own if key.rpartition(".")[0] in refused})
    return reasons


def modern_state(state: dict[str, Any]) -> dict[str, Any]:
    """Return the pickled state of an Apply of 0.1.0 in the form of this version.

    Args:
        state: The ``__dict__`` that was pickled.
    """
    state = dict(state)
    state["_operation"] = state.pop("operation")
    state["_record_name"] = state.pop("record_name", None)
    state["_modules"] = dict(state["_modules"])
    for slot in ("projection_layer", "gate_layer"):
        state["_modules"].setdefault(slot, state.pop(slot, None))
    if "alpha" not in state["_modules"]:
        state.setdefault("alpha", 1.0)
    state.update(scale=1.0, projection_given=False, dim=None, settled_dim=None)
    return state


def _inserted_parameters(apply: Apply, slot: str) -> list[tuple[str, Tensor]]:
    layer = apply.projection_layer if slot == "projection_layer" else apply.gate_layer
    if layer is None or (slot == "projection_layer" and apply.projection_given):
        return []
    return list(layer.named_parameters())
