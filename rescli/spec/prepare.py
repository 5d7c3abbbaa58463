"""From a TARGET to blocks that can be looked at, run and measured."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from torch import nn
from torch.nn.modules.loss import _Loss  # the base class of all losses has no public name

from rescli.errors import SpecError
from rescli.spec.device import Inventory, choose_device
from rescli.spec.factory import article, build, check_settings
from rescli.spec.inputs import example_input, resize
from rescli.spec.listing import Definition, is_annotated_factory, required_arguments
from rescli.spec.load import load
from rescli.spec.placement import place
from rescli.spec.randomness import seeded
from rescli.spec.request import Request
from rescli.spec.target import parse_target
from torchresidual import LearnableAlpha

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import torch
    from torch import Tensor

    from rescli.spec.inputs import Origin
    from rescli.spec.load import LoadedSpec

__all__ = ["PreparedBlock", "Request", "preparations", "prepare"]


@dataclass(frozen=True, slots=True)
class PreparedBlock:
    """A block and what it is fed with.

    Args:
        name: The variable or the function that gave it.
        target: Where it comes from, in a form that is a TARGET again.
        module: The spec's own object: it is to be copied before anything in it changes. A copy already
            if another type or device was asked for.
        inputs: The positional arguments of its forward.
        origin: Who decided on the inputs: the command line, the spec, or its own first layers.
        spec_file: The file that the code lies in, for tracebacks; None if there is none.
        batch_dim: The dimension of the inputs that counts the items of the batch.
        with_data: Makes module and inputs once more with their data; None if they have it, or nobody can tell.
    """

    name: str
    target: str
    module: nn.Module
    inputs: tuple[Tensor, ...]
    origin: Origin
    spec_file: Path | None
    batch_dim: int = 0
    with_data: Callable[[], tuple[nn.Module, tuple[Tensor, ...]]] | None = None

    def resized(self, batch_size: int) -> tuple[Tensor, ...]:
        """Give the inputs with another batch size.

        Args:
            batch_size: How many items there are to be.
        """
        return resize(self.inputs, self.batch_dim, batch_size)


def prepare(target_text: str, request: Request) -> tuple[PreparedBlock, ...]:
    """Load what a TARGET names, build its blocks, and find an input for each.

    The state of the global random generators is the same afterwards as before.

    Args:
        target_text: As typed.
        request: How the blocks are built and fed.

    Raises:
        SpecError: The target cannot be found, loaded or built, or its input is not to be known.
        CommandLineError: A ``--set`` key fits nothing, or an argument is missing.
        HardwareError: The device is not there.
    """
    return tuple(make() for make in preparations(target_text, request))


def preparations(target_text: str, request: Request) -> tuple[Callable[[], PreparedBlock], ...]:
    """Load what a TARGET names, and return what prepares each of its blocks: one that fails hides no other.

    Args:
        target_text: As typed.
        request: How the blocks are built and fed.

    Raises:
        SpecError: The target cannot be found or loaded, or lists no block.
        CommandLineError: A ``--set`` key fits nothing, or an argument is missing.
        HardwareError: The device is not there.
    """
    device = choose_device(request.device, Inventory.look())
    target = parse_target(target_text)
    with seeded(request.seed):
        spec = load(target)
    definitions = spec.listed if target.name is None else (_named(spec, target.name),)
    if not definitions:
        raise _nothing_listed(spec)
    check_settings(definitions, request.settings)
    _check_example_names(spec)
    return tuple(partial(_prepared, spec, definition, request, device) for definition in definitions)


def _prepared(
    spec: LoadedSpec, definition: Definition, request: Request, device: torch.device
) -> PreparedBlock:
    name = definition.name
    module = build(
        definition,
        label=f"{spec.target.source}:{name}",
        file=spec.file,
        settings=request.settings,
        seed=request.seed,
        only_look=request.only_look,
    )
    example = example_input(module, name, getattr(spec.module, "example_inputs", None), request)
    is_real = device.type == "cpu" or any(tensor.is_meta for tensor in example.tensors)
    has_data = isinstance(definition.value, nn.Module) or not any(
        each.is_meta for each in module.parameters()
    )
    return PreparedBlock(
        name=name,
        target=spec.target.label(name),
        module=place(module, dtype=request.dtype, device=device),
        inputs=example.tensors if is_real else tuple(t.to(device) for t in example.tensors),
        origin=example.origin,
        spec_file=spec.file,
        batch_dim=example.batch_dim,
        with_data=None if has_data else partial(_with_data, spec, definition, request, device),
    )


def _with_data(
    spec: LoadedSpec, definition: Definition, request: Request, device: torch.device
) -> tuple[nn.Module, tuple[Tensor, ...]]:
    real = _prepared(spec, definition, replace(request, only_look=False), device)
    return real.module, real.inputs


def _named(spec: LoadedSpec, name: str) -> Definition:
    value = spec.find(name)
    if isinstance(value, nn.Module) or callable(value):
        return Definition(name, value)
    raise SpecError(
        f"{spec.target.source}:{name} is {article(value)}, neither a torch.nn.Module nor callable",
        hint="name a module, or a function or class that makes one",
    )


def _check_example_names(spec: LoadedSpec) -> None:
    """Refuse inputs for a block that there is not: its name is misspelt, and the block meant would go without."""
    given = getattr(spec.module, "example_inputs", None)
    for name in given if isinstance(given, Mapping) else ():
        if not isinstance(name, str) or not hasattr(spec.module, name):
            known = [definition.name for definition in spec.listed]
            close = difflib.get_close_matches(str(name), known, n=1)
            raise SpecError(
                f"example_inputs of {spec.target.source} names {name!r}, and no block has that name",
                hint=f"did you mean {close[0]!r}?" if close else f"its blocks are {', '.join(known)}",
            )


def _left_out(spec: LoadedSpec) -> str:
    """Say which modules at the top level of a file are no blocks of its own, and why."""
    reasons = []
    for name, value in vars(spec.module).items():
        if isinstance(value, nn.Module):
            why = "begins with an underscore" if name.startswith("_") else "is imported"
            if isinstance(value, LearnableAlpha):
                why = "is a LearnableAlpha"
            elif isinstance(value, _Loss):
                why = "is a loss"
            reasons.append(f"{name} {why}")
    return ", ".join(reasons)


def _nothing_listed(spec: LoadedSpec) -> SpecError:
    """Say why a file has no block, and which of its functions nearly is one."""
    source = spec.target.source
    own = [(name, value) for name, value in vars(spec.module).items() if not name.startswith("_")]
    for name, value in own:
        if is_annotated_factory(value, spec.module):
            arguments = " ".join(f"--set {argument}=..." for argument in required_arguments(value))
            return SpecError(
                f"{source} defines no block: {name} cannot be called without arguments",
                hint=f"give them: {source}:{name} {arguments}",
            )
    for name, value in own:
        if callable(value) and getattr(value, "__module__", None) == spec.module.__name__:
            return SpecError(
                f"{source} defines no block: no module, and no function annotated to return one",
                hint=f"name what makes it, {source}:{name}, or annotate a function with -> nn.Module",
            )
    left_out = _left_out(spec)
    if left_out:
        return SpecError(
            f"{source} defines no block that is shown by itself: {left_out}",
            hint=f"name it: {source}:{left_out.partition(' ')[0]}",
        )
    return SpecError(
        f"{source} defines no block: there is no torch.nn.Module at its top level",
        hint="assign one to a name, as block = ResidualSequential(...)",
    )
