"""The example input of a block: given on the command line, by the spec, or worked out from the layers."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from rescli.errors import CommandLineError, SpecError
from rescli.spec.layers import ExpectedInput, expected_input
from rescli.spec.shape import InputShape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rescli.spec.request import Request

Origin = Literal["option", "spec", "inferred"]

# Indices into a table whose length nobody knows: every table has these two.
_SAFE_INDICES = 2
_FORMS = "a tensor, a shape as (8, 64), a tuple of these, or a dict from block name to any of them"


@dataclass(frozen=True, slots=True)
class ExampleInput:
    """The values a block is run on, and where they come from.

    Args:
        tensors: The positional arguments.
        origin: Who decided on them.
        batch_dim: The dimension that counts the items of the batch.
    """

    tensors: tuple[Tensor, ...]
    origin: Origin
    batch_dim: int


def example_input(block: nn.Module, name: str, given: object, request: Request) -> ExampleInput:
    """Find the input of a block.

    Args:
        block: The module; it is only looked at.
        name: Its name, for a dict of inputs and for messages.
        given: The spec's ``example_inputs``, or None.
        request: What the command line says. Values are drawn from a generator of their own, seeded with
            its seed.

    Raises:
        SpecError: ``example_inputs`` has a form that is not understood, or nothing tells the shape.
        CommandLineError: The shapes of ``--input`` do not fit into memory, or there are more or fewer than the
            block takes.
    """
    expected = expected_input(block)
    batch_dim = expected.batch_dim if expected else 0
    source = _Values(block, expected, request)
    if request.inputs:
        _check_count(block, name, len(request.inputs))
        return ExampleInput(tuple(source.fill(shape) for shape in request.inputs), "option", batch_dim)
    if isinstance(given, Mapping):
        given = given.get(name)
    if given is not None:
        tensors = tuple(source.take(item) for item in _items(given))
        return _sized(ExampleInput(tensors, "spec", batch_dim), request)
    if expected is None:
        raise SpecError(
            f"the input of {name} cannot be worked out: no layer at its start tells its sizes",
            hint=(
                f"give --input SHAPE, as --input 8x64, or say it in the spec: example_inputs = {{{name!r}: (8, 64)}}"
            ),
        )
    tensors = tuple(source.fill(InputShape(shape)) for shape in expected.shapes)
    return _sized(ExampleInput(tensors, "inferred", batch_dim), request)


def resize(tensors: Sequence[Tensor], batch_dim: int, batch_size: int) -> tuple[Tensor, ...]:
    """Give inputs another batch size; items are left out at the end or repeated from the start.

    Args:
        tensors: The inputs. Those that do not count the same items along ``batch_dim`` as the first are
            left as they are: a mask, or a temperature.
        batch_dim: The dimension that counts the items.
        batch_size: How many items there are to be.
    """
    if not tensors or tensors[0].dim() <= batch_dim:
        return tuple(tensors)
    items = tensors[0].size(batch_dim)
    return tuple(_resized(tensor, batch_dim, items, batch_size) for tensor in tensors)


def _resized(tensor: Tensor, batch_dim: int, items: int, batch_size: int) -> Tensor:
    if tensor.dim() <= batch_dim or tensor.size(batch_dim) != items or items in (0, batch_size):
        return tensor
    chosen = torch.arange(batch_size, device=tensor.device) % items
    return tensor.index_select(batch_dim, chosen)


def _sized(example: ExampleInput, request: Request) -> ExampleInput:
    if request.batch_size is None:
        return example
    tensors = resize(example.tensors, example.batch_dim, request.batch_size)
    return ExampleInput(tensors, example.origin, example.batch_dim)


def _check_count(block: nn.Module, name: str, given: int) -> None:
    """Refuse more or fewer inputs than the block's forward takes, where it says so."""
    try:
        forward = inspect.signature(block.forward)
    except (TypeError, ValueError):  # TorchScript, or written in C
        return
    try:
        forward.bind(*[None] * given)
    except TypeError as error:
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        names = ", ".join(each.name for each in forward.parameters.values() if each.kind in kinds)
        times = "once" if given == 1 else f"{given} times"
        raise CommandLineError(
            f"--input was given {times}, and the forward of {name} takes ({names}): {error}",
            hint="give --input once for each of them, in their order",
        ) from None


def _items(given: object) -> tuple[object, ...]:
    """Take ``example_inputs`` apart into the positional arguments."""
    if isinstance(given, Tensor) or _is_shape(given):
        return (given,)
    if (
        isinstance(given, (tuple, list))
        and given
        and all(isinstance(i, Tensor) or _is_shape(i) for i in given)
    ):
        return tuple(given)
    raise SpecError(f"example_inputs is {_short(given)}", hint=f"it may be {_FORMS}")


def _is_shape(value: object) -> bool:
    return (
        isinstance(value, (tuple, list))
        and bool(value)
        and all(type(size) is int and size >= 0 for size in value)
    )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


class _Values:
    """Makes tensors for a block: of its own type and on its own device, with seeded values.

    Args:
        block: The module they are for.
        expected: What its layers tell.
        request: Seed and type.
    """

    def __init__(self, block: nn.Module, expected: ExpectedInput | None, request: Request) -> None:
        self._floating = _floating_type(block, request)
        self._cast = request.dtype is not None
        self._device = _device_of(block)
        self._below = expected.below if expected else None
        self._vocabulary = self._below or _smallest_table(block) or _SAFE_INDICES
        self._generator = torch.Generator("cpu").manual_seed(request.seed)

    def take(self, item: object) -> Tensor:
        """Make a tensor from a tensor or a shape of the spec. The spec's own stays as it is."""
        if isinstance(item, Tensor):
            own = item.detach().clone()
            return own.to(self._floating) if self._cast and own.is_floating_point() else own
        assert isinstance(item, (tuple, list))  # noqa: S101 - what _items lets pass
        return self.fill(InputShape(tuple(item)))

    def fill(self, shape: InputShape) -> Tensor:
        """Draw a tensor of a shape; indices if the block begins with a table, else floating values."""
        dtype = (
            getattr(torch, shape.dtype) if shape.dtype else (torch.int64 if self._below else self._floating)
        )
        try:
            return self._draw(shape.shape, dtype)
        except (RuntimeError, TypeError, OverflowError) as error:
            sizes = "x".join(map(str, shape.shape))
            raise CommandLineError(f"an input of {sizes} does not fit into memory") from error

    def _draw(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        if self._device.type == "meta":
            return torch.empty(shape, dtype=dtype, device="meta")
        # Drawn on the CPU, where the generator is, whatever default device the spec may have set.
        if dtype.is_floating_point or dtype.is_complex:
            exact = torch.float64 if dtype == torch.float64 else torch.float32
            drawn = torch.randn(
                shape, dtype=dtype if dtype.is_complex else exact, device="cpu", generator=self._generator
            )
        else:
            below = 2 if dtype == torch.bool else min(self._vocabulary, torch.iinfo(dtype).max)
            drawn = torch.randint(below, shape, device="cpu", generator=self._generator)
        return drawn.to(device=self._device, dtype=dtype)


def _floating_type(block: nn.Module, request: Request) -> torch.dtype:
    if request.dtype is not None:
        dtype: torch.dtype = getattr(torch, request.dtype)
        return dtype
    own = (parameter.dtype for parameter in block.parameters() if parameter.dtype.is_floating_point)
    return next(own, torch.get_default_dtype())


def _device_of(block: nn.Module) -> torch.device:
    own = {parameter.device for parameter in block.parameters()}
    # Of a large block small tensors may have data all the same.
    return next((device for device in own if device.type == "meta"), next(iter(own), torch.device("cpu")))


def _smallest_table(block: nn.Module) -> int | None:
    tables = (m.num_embeddings for m in block.modules() if isinstance(m, (nn.Embedding, nn.EmbeddingBag)))
    return min(tables, default=None)
