# mypy: disable-error-code="operator, no-any-return, arg-type, union-attr, index, override, assignment"
# To mypy an attribute that nn.Module holds is Tensor | Module; TorchScript types each by its value.
"""ResidualSequentialScript: what TorchScript forces on us, alone in one room.

TorchScript compiles a ``forward`` with the types it can see and keeps no Python objects, so there is no thread-local
frame here: which Apply reads which Record is worked out when the module is made, and the recorded tensors lie in a list
that belongs to the call. What a child is, is told by an attribute it has: ``hasattr`` on a child is decided while
compiling.

No ``from __future__ import annotations`` in this file: TorchScript reads annotations as they are.
"""

from collections import OrderedDict
from typing import Any, List, Union

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - torch's own name for it

from torchresidual.alpha import LearnableAlpha
from torchresidual.apply import Apply
from torchresidual.errors import ResidualError, StructureError, UnsettledError
from torchresidual.inplace import Writes
from torchresidual.plan import Call, Plan, Step
from torchresidual.projection import Unsettled
from torchresidual.record import Record
from torchresidual.sequential import ResidualSequential
from torchresidual.wrappers import RecurrentWrapper


class ResidualSequentialScript(nn.Sequential):
    """A block that ``torch.jit.script`` compiles, made from a block and sharing its parameters.

    Its state_dict has the keys of the block, also after saving and loading the compiled file, which runs without this
    package. ``forward`` takes the input alone.

    Args:
        *modules: A ResidualSequential, or the layers of one.

    Raises:
        StructureError: For what TorchScript cannot express, by name: a layer that returns a tuple, an Apply that
            reads a Record of an enclosing block, a Record or Apply inside a layer of your own.
        UnsettledError: If sizes are not settled yet.

    Example:
        >>> from torchresidual import Apply, Record
        >>> block = ResidualSequential(Record(), nn.Linear(4, 4), Apply())
        >>> sibling = ResidualSequentialScript(block)
        >>> torch.equal(sibling(torch.ones(1, 4)), block(torch.ones(1, 4)))
        True
    """

    def __init__(self, *modules: Any) -> None:
        only = modules[0] if len(modules) == 1 else None
        block = only if isinstance(only, ResidualSequential) else ResidualSequential(*modules)
        plan = block.plan
        _refuse(plan)
        super().__init__(_children(block, "", plan))
        self.places = len(plan.places)
        self.copies = _copies(block, "", plan)
        self.training = block.training
        # torch.jit.script puts siblings into the containers that hold blocks, and remembers what it has seen by id():
        # a block that nobody holds any more would leave its id to another module, which it would then mix up.
        self.made_from = (block,)

    def forward(self, x: Tensor) -> Tensor:
        """Run the block.

        Args:
            x: What the first layer takes.
        """
        recorded: List[Tensor] = []
        for _ in range(self.places):
            recorded.append(x)
        for position, layer in enumerate(self):
            if self.copies[position]:
                x = x.clone()
            if hasattr(layer, "record_place"):
                recorded[layer.record_place] = x
            elif hasattr(layer, "apply_place"):
                x = layer(x, recorded[layer.apply_place])
            elif hasattr(layer, "is_container"):
                x = layer(x, recorded)
            else:
                x = layer(x)
        return x


class ScriptContainer(nn.Sequential):
    """A plain nn.Sequential inside a block: its Records and Applies use the block's list."""

    def __init__(self, children: "OrderedDict[str, nn.Module]", copies: List[bool]) -> None:
        super().__init__(children)
        self.is_container = True
        self.copies = copies

    def forward(self, x: Tensor, recorded: List[Tensor]) -> Tensor:
        """Run the container."""
        for position, layer in enumerate(self):
            if self.copies[position]:
                x = x.clone()
            if hasattr(layer, "record_place"):
                recorded[layer.record_place] = x
            elif hasattr(layer, "apply_place"):
                x = layer(x, recorded[layer.apply_place])
            elif hasattr(layer, "is_container"):
                x = layer(x, recorded)
            else:
                x = layer(x)
        return x


class ScriptRecord(nn.Module):
    """A Record: the number of the place where its tensor goes."""

    def __init__(self, place: int) -> None:
        super().__init__()
        self.record_place = place

    def forward(self, x: Tensor) -> Tensor:
        """Return x."""
        return x


class ScriptAlpha(nn.Module):
    """A LearnableAlpha whose bounds are read from its buffers, so that a loaded state brings its own."""

    def __init__(self, alpha: LearnableAlpha) -> None:
        super().__init__()
        self.param = alpha.param
        for name in ("min_val", "max_val", "use_log"):
            self.register_buffer(name, alpha.get_buffer(name))

    def forward(self) -> Tensor:
        """Return the value."""
        raw = self.param
        if raw.dtype == torch.float16 or raw.dtype == torch.bfloat16:
            raw = raw.float()
        low, high = self.min_val, self.max_val
        if bool(self.use_log):
            low, high = low.log(), high.log()
        value = torch.tanh(raw) * ((high - low) / 2) + (low + high) / 2
        if bool(self.use_log):
            value = value.exp()
        return torch.clamp(value, self.min_val, self.max_val).squeeze(0)


class ScriptApply(nn.Module):
    """An Apply: the number of the place it reads, and its operation on two tensors."""

    def __init__(self, apply: Apply, place: int) -> None:
        super().__init__()
        self.apply_place = place
        self.operation = apply.operation
        self.feature_dim = apply.dim if apply.dim is not None else apply.settled_dim or 0
        self.dim_is_known = apply.dim is not None or apply.settled_dim is not None
        self.is_given = apply.projection_given
        for name in ("alpha", "scale"):
            value = getattr(apply, name)
            if isinstance(value, LearnableAlpha):
                setattr(self, name, ScriptAlpha(value))
                setattr(self, f"{name}_is_learned", True)
            elif isinstance(value, nn.Parameter):
                setattr(self, name, value)
            elif isinstance(value, Tensor):
                self.register_buffer(name, value)
            else:
                setattr(self, f"{name}_number", float(value))
        self.projection_layer = apply.projection_layer
        self.gate_layer = apply.gate_layer
        self.projects_last = isinstance(apply.projection_layer, nn.Linear) and not apply.projection_given
        self.gates_last = isinstance(_transform_gate(apply), nn.Linear)

    def forward(self, x: Tensor, recorded: Tensor) -> Tensor:
        """Combine x with the recorded tensor."""
        x = self.scaled(x)
        r = self.projected(x, recorded)
        if self.operation == "concat":
            return torch.cat([x, r], self.dim_of(x, r))
        # Refuses what would grow x; a copy is not made.
        r = r.expand_as(x)
        if self.operation == "highway":
            return self.gated(x, r)
        weighted = self.weighted(r)
        if self.operation == "multiply":
            return x * (1 + weighted)
        if self.operation == "gated":
            return self.kept(x) + weighted
        return x + weighted

    def scaled(self, x: Tensor) -> Tensor:
        """Return ``scale * x``."""
        if hasattr(self, "scale_number"):
            return x if self.scale_number == 1.0 else self.scale_number * x
        elif hasattr(self, "scale_is_learned"):
            return self.scale() * x
        else:
            return self.scale.expand_as(x) * x if self.scale.dim() > 0 else self.scale * x

    def weighted(self, r: Tensor) -> Tensor:
        """Return ``alpha * r``."""
        if hasattr(self, "alpha_number"):
            return self.alpha_number * r
        elif hasattr(self, "alpha_is_learned"):
            return self.alpha() * r
        else:
            return self.alpha.expand_as(r) * r if self.alpha.dim() > 0 else self.alpha * r

    def kept(self, x: Tensor) -> Tensor:
        """Return ``(1 - alpha) * x``."""
        if hasattr(self, "alpha_number"):
            return (1 - self.alpha_number) * x
        elif hasattr(self, "alpha_is_learned"):
            return (1 - self.alpha()) * x
        else:
            return (1 - self.alpha) * x

    def dim_of(self, x: Tensor, r: Tensor) -> int:
        """Return the feature dimension, guessed from the shapes where nothing told."""
        if self.dim_is_known:
            return self.feature_dim
        return 1 if x.dim() == r.dim() and x.dim() >= 3 and x.size(1) != r.size(1) else -1

    def projected(self, x: Tensor, r: Tensor) -> Tensor:
        """Return the recorded tensor after its projection, if there is one."""
        if self.projection_layer is None:
            return r
        elif self.is_given:
            return self.projection_layer(r)
        else:
            dim = self.dim_of(x, r)
            if self.projects_last:
                return self.projection_layer(r.movedim(dim, -1)).movedim(-1, dim)
            r = self.projection_layer(r)
            for position in range(dim % x.dim() + 1, x.dim()):
                if r.size(position) == x.size(position) + 1:
                    r = r.narrow(position, 0, x.size(position))
            return r

    def gated(self, x: Tensor, r: Tensor) -> Tensor:
        """Return the highway of two tensors."""
        if self.gate_layer is None:
            return x
        else:
            dim = self.dim_of(x, x)
            if self.gates_last:
                transform = self.gate_layer.transform_gate(x.movedim(dim, -1)).movedim(-1, dim)
                carry = self.gate_layer.carry_gate(r.movedim(dim, -1)).movedim(-1, dim)
            else:
                transform = self.gate_layer.transform_gate(x)
                carry = self.gate_layer.carry_gate(r)
            return torch.sigmoid(transform) * x + torch.sigmoid(carry) * r


class ScriptAttention(nn.Module):
    """Self-attention that takes x alone; shares everything with the layer it stands for."""

    def __init__(self, layer: nn.MultiheadAttention) -> None:
        super().__init__()
        self.__dict__.update(layer.__dict__)

    def forward(self, x: Tensor) -> Tensor:
        """Attend from x to x."""
        swaps = self.batch_first and x.dim() == 3
        if swaps:
            x = x.transpose(0, 1)
        attended = F.multi_head_attention_forward(
            x,
            x,
            x,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            need_weights=False,
        )[0]
        return attended.transpose(0, 1) if swaps else attended


class ScriptRecurrent(nn.Module):
    """A RecurrentWrapper that returns the sequence alone."""

    def __init__(self, wrapper: RecurrentWrapper) -> None:
        super().__init__()
        self.module = wrapper.module

    def forward(self, x: Tensor) -> Tensor:
        """Run the layer."""
        return self.module(x)[0]


def _children(container: nn.Sequential, prefix: str, plan: Plan) -> "OrderedDict[str, nn.Module]":
    """Return what stands for each child of a container, under its key."""
    steps = {step.path: step for step in plan.steps if step.call is not Call.LEAVE}
    return OrderedDict((key, _child(steps[prefix + key], plan)) for key in container._modules)


def _child(step: Step, plan: Plan) -> nn.Module:
    module = step.module
    if step.call is Call.RECORD:
        return ScriptRecord(step.place)
    if isinstance(module, Apply):
        return ScriptApply(module, step.place)
    if isinstance(module, nn.Sequential) and step.call is Call.ENTER:
        prefix = step.path + "."
        return ScriptContainer(_children(module, prefix, plan), _copies(module, prefix, plan))
    if isinstance(module, ResidualSequential):
        try:
            return ResidualSequentialScript(module)
        except ResidualError as error:
            error.enter(step.path)
            raise
    if isinstance(module, nn.MultiheadAttention):
        return ScriptAttention(module)
    return ScriptRecurrent(module) if isinstance(module, RecurrentWrapper) else module


def _copies(container: nn.Sequential, prefix: str, plan: Plan) -> List[bool]:
    """Say for each child whether it writes into its input while a recorded tensor may share that memory."""
    in_place = {
        step.path for step in plan.steps if step.call is Call.GUARDED and step.writes is Writes.IN_PLACE
    }
    return [prefix + key in in_place for key in container._modules]


def _refuse(plan: Plan) -> None:
    """Raise for what TorchScript cannot express."""
    for step in plan.steps:
        reason = _reason_against(step)
        if reason:
            error = StructureError(f"TorchScript cannot express it: {reason}", subject=_subject(step.module))
            error.enter(step.path)
            raise error
        if isinstance(step.module, Apply) and any(isinstance(m, Unsettled) for m in step.module.modules()):
            unsettled = UnsettledError(
                "its sizes are not settled yet; call block.materialize(example) first",
                subject=repr(step.module),
            )
            unsettled.enter(step.path)
            raise unsettled


def _reason_against(step: Step) -> str:
    module = step.module
    if step.call is Call.SEARCH:
        return "it reads a Record outside of its block, which is only known while the block runs"
    if isinstance(module, RecurrentWrapper) and module.return_hidden:
        return "with return_hidden it returns a tuple"
    if isinstance(module, nn.RNNBase):
        return "it returns a tuple; put it into a RecurrentWrapper"
    if step.attention not in ("", step.path):
        return f"a plain nn.Sequential calls the attention at '{step.attention}' with x alone"
    own = (Record, Apply, ResidualSequential)
    if step.call in (Call.ENTER, Call.LEAVE) or isinstance(module, own):
        return ""
    hidden = any(isinstance(part, own) for part in module.modules())
    return "a Record or Apply inside a layer of your own is found while the block runs" if hidden else ""


def _subject(module: nn.Module) -> str:
    return repr(module) if isinstance(module, Apply) else type(module).__name__


def _transform_gate(apply: Apply) -> Union[nn.Module, None]:
    return None if apply.gate_layer is None else apply.gate_layer.get_submodule("transform_gate")
