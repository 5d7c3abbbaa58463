"""What one call gives, outputs and gradients, and whether two calls gave the same, bit for bit."""

from __future__ import annotations

import dataclasses
import itertools
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import GeneratorType
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from rescli.threads.result import Wrong

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torch import nn

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_TORCH_FOLDER = Path(torch.__file__).parent
# A forward that is a generator does its work while it is read; one without an end is read so far.
_YIELDED = 1000
# So many values of gradients by parameters are compared for each call.
_MOST_GRADIENT_VALUES = 4_000_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one call of a module gave.

    Args:
        values: Outputs and gradients by name; a gradient is None where nothing depends on the parameter.
        error: What was raised instead, or None.
    """

    values: Mapping[str, object]
    error: BaseException | None = None


def call(
    module: nn.Module, inputs: Sequence[Tensor], between: Callable[[Sequence[object]], None] | None = None
) -> Outcome:
    """Run forward and the gradients of its outputs, without touching any ``.grad``.

    Args:
        module: What is called. Replicas count: parameters that are plain attributes get gradients too.
        inputs: Their values; they are copied first, so a module that writes into its input harms nobody.
            Gradients by them are outcomes too, and those by the ``compared_parameters``.
        between: Called with the outputs after forward, before the gradients.
    """
    leaves = [value.detach().clone() for value in inputs]
    grads = torch.is_grad_enabled()
    for leaf in leaves:
        leaf.requires_grad_(grads and (leaf.is_floating_point() or leaf.is_complex()))
    # An operation may not write into a leaf that requires a gradient, but into its copy.
    output = module(*(leaf.clone() for leaf in leaves))
    if isinstance(output, GeneratorType):
        output = list(itertools.islice(output, _YIELDED))
    found = dict(_flat(output, "output"))
    if between is not None:
        between(list(found.values()))
    sources = {f"gradient of input {index}": leaf for index, leaf in enumerate(leaves) if leaf.requires_grad}
    sources |= {f"gradient of {name}": parameter for name, parameter in compared_parameters(module)[0]}
    values: dict[str, object] = {
        name: value.detach().clone() if isinstance(value, Tensor) else value for name, value in found.items()
    }
    return Outcome(values | _gradients(list(found.values()), sources))


def _gradients(outputs: Sequence[object], sources: Mapping[str, Tensor]) -> dict[str, object]:
    targets = [value for value in outputs if isinstance(value, Tensor) and value.requires_grad]
    if not targets or not sources:
        return {}
    grads = torch.autograd.grad(
        targets,
        list(sources.values()),
        grad_outputs=[_cotangent(target, seed) for seed, target in enumerate(targets)],
        allow_unused=True,
    )
    return dict(zip(sources, grads, strict=True))


def _cotangent(output: Tensor, seed: int) -> Tensor:
    """Give the same values for the same shape: not ones, under which the gradient of a norm vanishes."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(output.shape, generator=generator)
    return values.to(dtype=output.dtype, device=output.device)


def compared_parameters(module: nn.Module) -> tuple[list[tuple[str, Tensor]], int]:
    """Name the parameters whose gradients are compared, and count all that have one.

    In a large network most of the time would go into the gradients of a few large weights, hundreds of
    megabytes a call. There the largest are left out.

    Args:
        module: A module or a replica.
    """
    every = list(_parameters(module))
    left = _MOST_GRADIENT_VALUES
    taken = set()
    for name, parameter in sorted(every, key=lambda pair: 0 if is_lazy(pair[1]) else pair[1].numel()):
        left -= 0 if is_lazy(parameter) else parameter.numel()
        if left < 0:
            break
        taken.add(name)
    return [pair for pair in every if pair[0] in taken], len(every)


def _parameters(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Name what can have a gradient; replicas keep theirs in ``_former_parameters``."""
    seen: set[int] = set()
    for path, layer in module.named_modules():
        own = {**layer._parameters, **getattr(layer, "_former_parameters", {})}  # noqa: SLF001 - no public way on a replica
        for name, parameter in own.items():
            if parameter is not None and parameter.requires_grad and id(parameter) not in seen:
                seen.add(id(parameter))
                yield (f"{path}.{name}" if path else name), parameter


def _flat(value: object, name: str) -> Iterator[tuple[str, object]]:
    """Name every tensor and plain value in what a forward returned."""
    if isinstance(value, (Tensor, *_PLAIN)):
        yield name, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flat(item, f"{name}[{key!r}]")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _flat(item, f"{name}[{index}]")
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from _flat(getattr(value, field.name), f"{name}.{field.name}")
    else:
        yield name, f"a {type(value).__name__}"


def same_bits(one: Tensor, other: Tensor) -> bool:
    """Tell whether two tensors are equal in type, shape and every bit; NaN equals the same NaN.

    Args:
        one: A tensor.
        other: Another.
    """
    if one.dtype != other.dtype or one.shape != other.shape or one.layout != other.layout:
        return False
    if one.layout != torch.strided or one.device.type == "meta":
        return one.device.type == "meta" or bool(torch.equal(one.to_dense(), other.to_dense()))
    return torch.equal(_bytes(one), _bytes(other))


def _bytes(value: Tensor) -> Tensor:
    return value.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)


def compare(thread: str, found: Outcome, expected: Outcome) -> tuple[Wrong, ...]:
    """Name every value that differs from what the same call gives in a single thread.

    Args:
        thread: The letter of the thread that got ``found``.
        found: What the thread got.
        expected: The right answer.
    """
    if found.error is not None or expected.error is not None:
        texts = describe_error(found.error), describe_error(expected.error)
        return () if texts[0] == texts[1] else (Wrong(thread, "exception", *texts),)
    wrong = []
    for name in dict.fromkeys((*expected.values, *found.values)):
        values = found.values.get(name, _ABSENT), expected.values.get(name, _ABSENT)
        if not _same(*values):
            wrong.append(Wrong(thread, name, *_texts(*values)))
    return tuple(wrong)


_ABSENT = "nothing of that name"


def _same(found: object, expected: object) -> bool:
    if isinstance(found, Tensor) and isinstance(expected, Tensor):
        return same_bits(found, expected)
    if isinstance(found, Tensor) or isinstance(expected, Tensor):
        return False
    # repr, so that NaN equals NaN and True is not 1.
    return repr(found) == repr(expected)


def _texts(found: object, expected: object) -> tuple[str, str]:
    """Say how two values differ, each in its own words."""
    if not (isinstance(found, Tensor) and isinstance(expected, Tensor)):
        return _kind(found), _kind(expected)
    if found.shape != expected.shape:
        return f"shape {tuple(found.shape)}", f"shape {tuple(expected.shape)}"
    if found.dtype != expected.dtype:
        return str(found.dtype), str(expected.dtype)
    wide = torch.complex128 if found.is_complex() else torch.float64
    distance = (found.detach().to(wide) - expected.detach().to(wide)).abs().nan_to_num(nan=torch.inf)
    different = int((distance != 0).sum())
    if not different:
        return "other bits (a sign of zero, or another NaN)", "the same bits"
    worst = int(distance.argmax())
    one, other = (f"{value.detach().reshape(-1)[worst].item():.6g}" for value in (found, expected))
    return one, f"{other} (where it is worst; {different:,} of {found.numel():,} values differ)"


def _kind(value: object) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    return "no gradient" if value is None else str(value)


def describe_error(error: BaseException | None) -> str:
    """Write an exception in one line, with the place outside PyTorch that it came from.

    Args:
        error: What was raised, or None for nothing.
    """
    if error is None:
        return "no exception"
    message = str(error).strip().split("\n", 1)[0]
    frames = traceback.extract_tb(error.__traceback__)
    outside = [frame for frame in frames if _TORCH_FOLDER not in Path(frame.filename).parents]
    own = [frame for frame in outside if Path(frame.filename).parent != Path(__file__).parent]
    place = f" ({Path(own[-1].filename).name}:{own[-1].lineno})" if own else ""
    return f"{type(error).__name__}: {message}{place}" if message else f"{type(error).__name__}{place}"
