"""ResidualSequential: a sequence of layers with skips from Record to Apply."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, overload

import torch
from torch import nn
from torch.compiler import is_dynamo_compiling

from torchresidual.apply import Apply
from torchresidual.blame import nested_too_deep
from torchresidual.epoch import EDITS, bump
from torchresidual.frame import _context, current_frame
from torchresidual.plan import are_outdated, are_switched, edges_of, hooks_of, is_watched, registration_hooks
from torchresidual.plan_cache import PlanCache
from torchresidual.planning import make_plan
from torchresidual.projection import Unsettled
from torchresidual.record import Record
from torchresidual.running import run, run_watched
from torchresidual.sizing import size_block
from torchresidual.structure import Scope
from torchresidual.traced import run_traced
from torchresidual.tracing import is_proxy
from torchresidual.written import write_forward

if TYPE_CHECKING:
    from collections import OrderedDict
    from collections.abc import Iterable, Mapping

    from typing_extensions import Self

    from torchresidual.frame import Frame
    from torchresidual.plan import Edge, Plan


class ResidualSequential(Scope):
    """Run layers one after the other, with skips between Records and Applies.

    It takes what ``nn.Sequential`` takes and does what it does; a Record saves the tensor at its place, an Apply
    further on combines it with the current one. Records and Applies may stand in nested ``nn.Sequential``
    containers and in layers of your own; a nested ResidualSequential has names of its own and can read those of the
    blocks around it. The same layer may stand in several places and runs in each.

    Args:
        *modules: The layers in order, or one OrderedDict from names to layers.

    Raises:
        ResidualError: From ``forward``; the message names the place in the block.

    Example:
        >>> import torch
        >>> from torchresidual import Apply, Record
        >>> block = ResidualSequential(
        ...     Record(need_projection=True),
        ...     nn.Linear(64, 128),
        ...     Apply(),
        ... )
        >>> block(torch.zeros(8, 64)).shape
        torch.Size([8, 128])
        >>> block[2].projection_layer
        Linear(in_features=64, out_features=128, bias=True)
    """

    @overload
    def __init__(self, *args: nn.Module) -> None: ...

    @overload
    def __init__(self, arg: OrderedDict[str, nn.Module]) -> None: ...

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if kwargs or not self._may_take(args):
            super().__init__(*args, **kwargs)
        else:  # of 10,000 layers torch asks one by one whether their number is taken
            super().__init__()
            self._modules.update(zip(map(str, range(len(args))), args, strict=True))
        # A slice shares its Applies with the block it was cut from, which knows more about their sizes.
        self._edited(sizes=not getattr(_context, "slicing", False))
        self._warn_of_lonely_applies()

    def _may_take(self, args: tuple[Any, ...]) -> bool:
        """Say whether adding these children one by one would find nothing to say, and nobody listens."""
        return (
            all(isinstance(arg, nn.Module) for arg in args)
            and type(self).add_module is ResidualSequential.add_module
            and not registration_hooks()
        )

    def _warn_of_lonely_applies(self) -> None:
        """Say so where an unnamed Apply has nothing to read; a named one asks for an enclosing block's Record."""
        lonely = [read for read in self.plan.free if read.apply.record_name is None]
        if lonely and not self.plan.places and not getattr(_context, "slicing", False):
            warnings.warn(
                f"the Apply at '{lonely[0].path}' has no Record before it in this block; unless an enclosing block "
                "has one, its forward will fail. Put a Record before it, or name the Record it means",
                UserWarning,
                stacklevel=3,
            )

    # ------------------------------------------------------------------ running

    def forward(  # type: ignore[override]  # nn.Sequential calls its input `input`
        self,
        x: Any,
        hidden: Any = None,
        **module_kwargs: Mapping[str, Any],
    ) -> Any:
        """Run the block.

        Args:
            x: What the first layer takes.
            hidden: A hidden state for the RecurrentWrappers that are direct children.
            **module_kwargs: Keyword arguments for direct children, by name: ``block(x, **{"1": {"attn_mask": m}})``.

        Returns:
            What the last layer returns, or ``(x, [extras...])`` where layers returned more than one thing: the
            first item of a tuple goes on, the others are extras, in order.
        """
        if hidden is None and not module_kwargs:
            written = self._plan_cache.written
            if written is not None and not is_dynamo_compiling():
                return written(self, x)
            return self.run_planned(x)
        if is_proxy(hidden):  # torch.fx hands over something for every argument there is
            return self(x)
        return run_watched(self, self.plan, x, hidden, module_kwargs)

    def run_planned(self, x: Any) -> Any:
        """Run the block by its plan, which is made anew if it is out of date."""
        plan = self.plan
        if is_watched(plan):
            return run_watched(self, plan, x, None, {})
        if is_dynamo_compiling():
            # Behind a graph break an inner block is traced on its own, and finds the outer frame like in eager.
            return run_traced(self, plan, x, current_frame() if plan.free else None)
        return run(self, plan, x)

    def materialize(self, example: Any, **kwargs: Any) -> Self:
        """Settle every projection and gate whose sizes were not known at construction.

        No parameter or buffer that has its values already is changed, nor the mode or the random generators.

        Args:
            example: An input of the shape that the block is used with; its values do not matter.
            **kwargs: What else ``forward`` needs.

        Returns:
            The block itself.

        Example:
            >>> class Custom(nn.Module):
            ...     def forward(self, x):
            ...         return torch.cat([x, x], -1)
            >>> block = ResidualSequential(Record(need_projection=True), Custom(), Apply())
            >>> block.materialize(torch.zeros(1, 4))[2].projection_layer
            Linear(in_features=4, out_features=8, bias=True)
        """
        self._edited()  # an edit inside a nested container may not have reached this block yet
        modes = [(module, module.training) for module in self.modules()]
        buffers = [
            (buffer, buffer.clone(), buffer._version)
            for buffer in self.buffers()
            if not (nn.parameter.is_lazy(buffer) or buffer.is_inference())
        ]
        devices = {tensor.device for tensor in self.parameters() if tensor.device.type == "cuda"}
        self.eval()
        try:
            with torch.no_grad(), torch.random.fork_rng(devices=sorted(devices, key=str)):
                self(example, **kwargs)
        finally:
            for module, training in modes:
                module.training = training
            with torch.no_grad():
                for buffer, value, version in buffers:
                    if (
                        buffer._version != version
                    ):  # writing would count as a change to a graph that has saved it
                        buffer.copy_(value)
        bump()
        self.plan  # noqa: B018 - made now, before anything traces: with every size known, more can be written down
        return self

    @property
    def plain(self) -> bool:
        """Whether it may be run without being called: no hooks, and no ``forward`` of a subclass."""
        return type(self).forward is ResidualSequential.forward and not (
            any(hooks_of(self)) or is_watched(self.plan)
        )

    def run_inside(self, x: Any, frame: Frame) -> Any:
        """Run it inside the forward of an enclosing block that is being traced.

        Args:
            x: The input.
            frame: The frame of the enclosing block.
        """
        return run_traced(self, self.plan, x, frame)

    # ------------------------------------------------------------------ looking

    @property
    def plan(self) -> Plan:
        """The plan of the children as they stand; made anew after an edit."""
        plan = self._plan_cache.plan
        if (
            plan is None
            or plan.epoch != EDITS.count
            or plan.children != tuple(self._modules.values())
            or ((plan.containers or plan.switches) and self._is_outdated(plan))
            or (plan.watched and not any(plan.watched))  # the hooks are gone
        ):
            try:
                plan = make_plan(self)
            except RecursionError as error:
                raise nested_too_deep() from error
            # A replica lives for one call, and compilers follow the plan.
            once = getattr(self, "_is_replica", False) or is_dynamo_compiling()
            self._plan_cache.keep(plan, None if once else write_forward(plan, self._modules))
        return plan

    def _is_outdated(self, plan: Plan) -> bool:
        """Say whether something was edited that the block did not see."""
        return are_outdated(plan.containers) or are_switched(plan.switches)

    def edges(self) -> tuple[Edge, ...]:
        """Return the skips that the structure shows, those of nested blocks included, in order of their Applies.

        Example:
            >>> ResidualSequential(Record(name="r"), nn.ReLU(), Apply()).edges()[0]
            Edge(record_path='0', record_name='r', apply_path='2', operation='add')
        """
        order = {path: i for i, (path, _) in enumerate(self.named_modules(remove_duplicate=False))}
        return tuple(sorted(edges_of(self.plan), key=lambda edge: order[edge.apply_path]))

    def get_residual_info(self) -> dict[str, list[dict[str, Any]]]:
        """Return the Records and Applies of this block as dictionaries, in order.

        ``shape`` of a Record is always None: nothing is kept after a forward.
        """
        names = self.plan.names
        markers = [module for module in self.modules() if isinstance(module, Record | Apply)]
        return {
            "records": [
                {"name": names.get(id(m), m.name), "need_projection": m.need_projection, "shape": None}
                for m in markers
                if isinstance(m, Record)
            ],
            "applies": [
                {"operation": m.operation, "record_name": m.record_name, "alpha": m.alpha}
                for m in markers
                if isinstance(m, Apply)
            ],
        }

    # ------------------------------------------------------------------ editing

    def _edited(self, *, sizes: bool = True) -> None:
        """Forget the plan; name the Records and size the Applies anew."""
        self._plan_cache = PlanCache()
        plan = self.plan
        if sizes and plan.sized:
            size_block(self)
            self._plan_cache.unsettled = any(isinstance(module, Unsettled) for module in self.modules())
            plan = self.plan  # what was inserted is part of it
        for place in plan.places:
            # Not by setattr, which asks first whether it is a parameter or a module.
            place.record.__dict__["_automatic_name"] = None if place.record._given_name else place.name

    def _is_built(self) -> bool:
        return "_plan_cache" in self.__dict__

    def add_module(self, name: str, module: nn.Module | None) -> None:
        """Add or replace a child by name."""
        if "_plan_cache" not in self.__dict__:  # under construction, layer by layer
            super().add_module(name, module)
            return
        is_new = name not in self._modules
        super().add_module(name, module)
        if is_new and module is not None and self._plan_cache.takes_quietly(module):
            self._plan_cache.take(module)  # appending many stays linear
        else:
            self._edited()
        bump()
        self._plan_cache.epoch = EDITS.count  # of this edit it knows

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        # torch puts the children of a DataParallel replica together one by one: it has the original's sizes.
        if isinstance(value, nn.Module) and self._is_built() and not getattr(self, "_is_replica", False):
            self._edited()
            bump()

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        if self._is_built() and name != "_plan_cache":
            self._edited()
            bump()

    def __delitem__(self, index: slice | int) -> None:
        with _OneEdit(self):
            super().__delitem__(index)

    @overload
    def __getitem__(self, idx: slice) -> Self: ...

    @overload
    def __getitem__(self, idx: int) -> nn.Module: ...

    def __getitem__(self, idx: slice | int) -> Self | nn.Module:
        _context.slicing = True  # a slice may well cut off a Record: its forward says so, if it is run
        try:
            return super().__getitem__(idx)
        finally:
            _context.slicing = False

    def insert(self, index: int, module: nn.Module) -> Self:
        """Insert a layer before a position."""
        with _OneEdit(self):
            super().insert(index, module)
        return self

    def extend(self, sequential: Iterable[nn.Module]) -> Self:
        """Append several layers."""
        with _OneEdit(self):
            super().extend(list(sequential))
        return self

    def __iadd__(self, other: nn.Sequential) -> Self:
        with _OneEdit(self):
            super().__iadd__(other)
        return self

    def __imul__(self, other: int) -> Self:
        with _OneEdit(self):
            super().__imul__(other)
        return self

    def __add__(self, other: nn.Sequential) -> ResidualSequential:
        if not isinstance(other, nn.Sequential):
            return NotImplemented
        return ResidualSequential(*self, *other)

    def __mul__(self, other: int) -> ResidualSequential:
        product: nn.Sequential = super().__mul__(other)
        return ResidualSequential(*product)

    def __rmul__(self, other: int) -> ResidualSequential:
        return self * other

    def __prepare_scriptable__(self) -> nn.Module:
        """Hand ``torch.jit.script`` the sibling that it can compile."""
        from torchresidual.script import ResidualSequentialScript  # noqa: PLC0415 - it imports this module

        return ResidualSequentialScript(self)

    # ------------------------------------------------------------------ copies

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the plan: it is derived, and holds the modules of this very block."""
        state = self.__dict__.copy()
        state.pop("_plan_cache", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        # torchresidual 0.1.0 kept tensors here, and made projections and gates in the first forward only.
        kept = ("recorded_tensors", "last_record_name", "extra_output")
        legacy = any(name in state for name in kept)
        state = {name: value for name, value in state.items() if name not in kept}
        super().__setstate__(state)  # type: ignore[no-untyped-call]  # torch leaves it so
        self._edited(sizes=legacy)

    def _replicate_for_data_parallel(self) -> Self:
        replica = super()._replicate_for_data_parallel()  # type: ignore[no-untyped-call]  # torch leaves it so
        # A plan that came along would run the original's layers.
        replica._plan_cache = PlanCache()
        return replica  # type: ignore[no-any-return]


class _OneEdit:
    """Several changes of the children as one edit, so that each is not planned for."""

    def __init__(self, block: ResidualSequential) -> None:
        self.block = block

    def __enter__(self) -> None:
        del self.block.__dict__["_plan_cache"]

    def __exit__(self, *_: object) -> None:
        self.block._edited()
        bump()
