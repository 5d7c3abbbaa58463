"""What an Apply carries: the projection of its skip and the gates of a highway, and how they came to be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rescli.graph.details import detail_of, type_name
from rescli.graph.model import InsertedFact
from rescli.graph.structure import has_size
from torchresidual.core import Apply

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import nn

    from rescli.graph.model import Shape
    from rescli.graph.recording import Execution


def is_layout_guessed(apply: Apply, current_shape: Shape) -> bool:
    """Say whether only the shapes of the run tell where the features of an Apply lie.

    Args:
        apply: The Apply; of interest where it joins along them, or has a projection or gates.
        current_shape: Shape of the tensor that reached it.
    """
    # With fewer than three dimensions there is one place for them.
    return apply.dim is None and apply.settled_dim is None and len(current_shape) >= 3


def projection_of(execution: Execution, path: str, originals: Mapping[int, nn.Module]) -> InsertedFact | None:
    """Describe what bridges the two sizes of a skip, if anything does.

    Args:
        execution: The execution of the Apply.
        path: Its position in the module tree.
        originals: The user's own module for each module of the copy, to see what it had before the run.
    """
    return _carried(execution, path, originals, "projection_layer")


def gates_of(execution: Execution, path: str, originals: Mapping[int, nn.Module]) -> InsertedFact | None:
    """Describe the gates of a highway.

    Args:
        execution: As for ``projection_of``.
        path: As for ``projection_of``.
        originals: As for ``projection_of``.
    """
    return _carried(execution, path, originals, "gate_layer")


def _carried(
    execution: Execution, path: str, originals: Mapping[int, nn.Module], name: str
) -> InsertedFact | None:
    layer = getattr(execution.module, name, None)
    if layer is None:
        return None
    return _inserted(execution, layer, f"{path}.{name}", _Insertion.of(execution, originals, name))


@dataclass(frozen=True, slots=True)
class _Insertion:
    """How a projection or gates came to be: the same for all their parts."""

    origin: Literal["inserted", "given"]
    sized: Literal["construction", "first-run"]
    layout: Literal["known", "guessed"] | None

    @classmethod
    def of(cls, execution: Execution, originals: Mapping[int, nn.Module], name: str) -> _Insertion:
        apply, read = execution.module, execution.read
        assert isinstance(apply, Apply)  # noqa: S101 - nothing else carries them
        # The copy has run by now; the user's own has its sizes only if construction could tell them.
        own = getattr(originals.get(id(apply), apply), name, None)
        is_sized = own is not None and all(has_size(each) for each in own.parameters())
        is_given = name == "projection_layer" and apply.projection_given
        is_guessed = is_layout_guessed(apply, read.current_shape if read else ())
        return cls(
            origin="given" if is_given else "inserted",
            sized="construction" if is_sized else "first-run",
            layout=None if is_given else "guessed" if is_guessed else "known",
        )


def _inserted(execution: Execution, layer: nn.Module, path: str, facts: _Insertion) -> InsertedFact:
    parts = tuple(
        _inserted(execution, child, f"{path}.{name}", facts) for name, child in layer.named_children()
    )
    account = execution.inner.get(id(layer))
    own = None if account is None else account.flops
    # A container that was not called itself took what its parts took.
    flops = own if own is not None or not parts else _sum_known(parts)
    return InsertedFact(
        path=path,
        type=type_name(layer),
        detail=detail_of(layer) or _joined(parts),
        parameters=sum(each.numel() for each in layer.parameters() if has_size(each)),
        flops=None if account is not None and account.has_holes else flops,
        origin=facts.origin,
        sized=facts.sized,
        layout=facts.layout,
        parts=parts,
    )


def _joined(parts: Sequence[InsertedFact]) -> str:
    labels = [f"{part.type} {part.detail}".strip() for part in parts]
    if len(labels) > 1 and len(set(labels)) == 1:
        return f"{len(labels)} x {labels[0]}"
    return " + ".join(labels)


def _sum_known(parts: Sequence[InsertedFact]) -> int | None:
    known = [part.flops for part in parts if part.flops is not None]
    return sum(known) if len(known) == len(parts) else None
