"""The forms of a block that are measured side by side: itself, and what it is compared with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rescli.bench.engine import BLOCK
from rescli.bench.modes import dress
from rescli.bench.passes import Forward, Inference, Training, private_copy
from rescli.bench.plain import without_skips
from rescli.bench.subject import Subject

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor, nn

    from rescli.bench.settings import Settings
    from rescli.bench.subject import Exercise
    from rescli.spec.prepare import PreparedBlock

PLAIN, VERSUS = "plain", "versus"


@dataclass(frozen=True, slots=True)
class Variant:
    """One form of a block.

    Args:
        label: ``block``, ``plain`` or ``versus``.
        block: What is measured, with its inputs.
        own_inputs: Whether its inputs are others than those of the block it is compared with.
    """

    label: str
    block: PreparedBlock
    own_inputs: bool = False


@dataclass(frozen=True, slots=True)
class Match:
    """A block, and what it is compared with.

    Args:
        block: The block of the TARGET.
        plain: Whether it is compared with itself without its skips.
        versus: The block of another TARGET that it is compared with, or None.
    """

    block: PreparedBlock
    plain: bool = False
    versus: PreparedBlock | None = None


def variants_of(match: Match) -> tuple[Variant, ...]:
    """Give the forms to measure, the block itself first.

    A block of another TARGET is fed with the very inputs of this one where shapes and types are the same.

    Args:
        match: The block, at the batch size that is measured, and its counterpart.

    Raises:
        NothingToTakeOutError: The plain form is wanted of a block without skips.
    """
    found = [Variant(BLOCK, match.block)]
    if match.plain:
        found.append(Variant(PLAIN, replace(match.block, module=without_skips(match.block.module))))
    if match.versus is not None:
        alike = _forms(match.versus) == _forms(match.block)
        other = replace(match.versus, inputs=match.block.inputs) if alike else match.versus
        found.append(Variant(VERSUS, other, own_inputs=not alike))
    return tuple(found)


def subjects_of(variant: Variant, settings: Settings) -> list[Subject]:
    """Choose the exercises that yield the passes that are wanted.

    Args:
        variant: What is measured.
        settings: Which passes, and how.
    """
    label, name = variant.label, f"{variant.label}, " if variant.label != BLOCK else ""

    def build(kind: Callable[[nn.Module, Sequence[Tensor]], Exercise]) -> Callable[[], Exercise]:
        return lambda: kind(*dressed_copy(variant, settings))

    subjects = []
    if "inference" in settings.passes:
        subjects.append(Subject(f"{name}inference", ("inference",), build(Inference), variant=label))
    forward = Subject(f"{name}forward", ("forward",), build(Forward), variant=label)
    if "backward" in settings.passes or "step" in settings.passes:
        fallback = forward if "forward" in settings.passes else None
        subjects.append(
            Subject(f"{name}step", ("forward", "backward", "step"), build(Training), fallback, label)
        )
    elif "forward" in settings.passes:
        subjects.append(forward)
    return subjects


def dressed_copy(variant: Variant, settings: Settings) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Copy module and inputs of a variant, and make of them what the settings want.

    Args:
        variant: What is measured; it stays as it is.
        settings: How.
    """
    module, inputs = private_copy(variant.block.module, variant.block.inputs)
    return dress(module, inputs, settings.modes, settings.devices)


def _forms(block: PreparedBlock) -> list[tuple[object, ...]]:
    return [(tuple(tensor.shape), tensor.dtype) for tensor in block.inputs]
