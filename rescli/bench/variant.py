"""The forms of a block that are measured side by side: itself, and what it is compared with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rescli.bench.engine import BLOCK
from rescli.bench.idle import Idle
from rescli.bench.modes import dress
from rescli.bench.parallel import share_of
from rescli.bench.passes import Forward, Inference, Training, private_copy
from rescli.bench.plain import without_skips
from rescli.bench.subject import Subject

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor, nn

    from rescli.bench.result import PassName
    from rescli.bench.settings import Settings
    from rescli.bench.subject import Exercise
    from rescli.spec.prepare import PreparedBlock

PLAIN, VERSUS, SINGLE = "plain", "versus", "single"


@dataclass(frozen=True, slots=True)
class Variant:
    """One form of a block.

    Args:
        label: ``block``, ``plain``, ``versus``, or ``single`` for the block on one device in one process.
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
        single: Whether it is compared with itself on one device in one process.
    """

    block: PreparedBlock
    plain: bool = False
    versus: PreparedBlock | None = None
    single: bool = False


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
    if match.single:
        found.append(Variant(SINGLE, match.block))
    return tuple(found)


def subjects_of(variant: Variant, settings: Settings) -> list[Subject]:
    """Choose the exercises that yield the passes that are wanted.

    Args:
        variant: What is measured.
        settings: Which passes, and how.
    """
    label, name = variant.label, f"{variant.label}, " if variant.label != BLOCK else ""
    is_idle = label == SINGLE and not settings.is_first

    def build(
        kind: Callable[[nn.Module, Sequence[Tensor]], Exercise], *passes: PassName
    ) -> Callable[[], Exercise]:
        # The device that it is measured on has the machine for itself meanwhile.
        return lambda: Idle(passes) if is_idle else kind(*dressed_copy(variant, settings))

    subjects = []
    if "inference" in settings.passes:
        subjects.append(
            Subject(f"{name}inference", ("inference",), build(Inference, "inference"), variant=label)
        )
    forward = Subject(f"{name}forward", ("forward",), build(Forward, "forward"), variant=label)
    if "backward" in settings.passes or "step" in settings.passes:
        fallback = forward if "forward" in settings.passes else None
        passes: tuple[PassName, ...] = ("forward", "backward", "step")
        subjects.append(Subject(f"{name}step", passes, build(Training, *passes), fallback, label))
    elif "forward" in settings.passes:
        subjects.append(forward)
    return subjects


def dressed_copy(variant: Variant, settings: Settings) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Copy module and inputs of a variant, and make of them what the settings want.

    Args:
        variant: What is measured; it stays as it is.
        settings: How.
    """
    settings = settings_of(variant, settings)
    module, inputs = private_copy(variant.block.module, variant.block.inputs)
    if settings.peers is not None:
        inputs = share_of(inputs, variant.block.batch_dim, settings.peers.place)
    return dress(module, inputs, settings.modes, settings.devices)


def settings_of(variant: Variant, settings: Settings) -> Settings:
    """Give the settings that a variant runs under.

    Args:
        variant: What is measured.
        settings: How its block is.
    """
    return settings.alone() if variant.label == SINGLE else settings


def _forms(block: PreparedBlock) -> list[tuple[object, ...]]:
    return [(tuple(tensor.shape), tensor.dtype) for tensor in block.inputs]
