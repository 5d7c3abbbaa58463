"""What the rules are given to judge a block by: the facts of its run, and those that no listing shows.

    Evidence
    ├── LayerFact, EdgeFact, Failure    of the run (``rescli.graph.model``)
    ├── Placement                       one Record or Apply of the structure
    ├── Traits                          what a layer that ran does beyond its sizes
    ├── AlphaState                      one LearnableAlpha
    ├── LayoutGuess                     an Apply whose feature dimension no layer told
    ├── FittingInput                    inputs for which a failed Apply does not fail
    └── BackwardRun                     what one backward pass left

Nothing here needs torch; ``rescli.graph.gather`` fills it in.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rescli.graph.diagnostics.rule import Finding
    from rescli.graph.model import EdgeFact, Failure, LayerFact, Shape


@dataclass(frozen=True, slots=True)
class Placement:
    """One place of a Record or Apply in the structure.

    Args:
        path: The position in the module tree.
        kind: Which of the two it is.
        name: Of a Record its name, of an Apply the name it asks for; None for the latest Record.
        scope: Path of the ResidualSequential that it belongs to.
        need_projection: Of a Record, whether it allows projections.
        operation: Of an Apply, what it does.
        has_own_projection: Of an Apply, whether it was given a projection.
        ignores_alpha: Of an Apply, whether it was given an alpha that its operation does not use.
    """

    path: str
    kind: Literal["record", "apply"]
    name: str | None
    scope: str
    need_projection: bool = False
    operation: str = ""
    has_own_projection: bool = False
    ignores_alpha: bool = False


@dataclass(frozen=True, slots=True)
class Traits:
    """What a layer that ran does beyond its sizes.

    Args:
        drops: Whether it drops elements, channels or whole branches at random in training.
        writes_in_place: Whether it writes its output into its input.
        passes_on: Whether its output is its input, or a view of it.
        is_container: Whether it only runs its children one after the other.
        is_batch_second: Whether it takes (time, batch, features), and did.
    """

    drops: bool = False
    writes_in_place: bool = False
    passes_on: bool = False
    is_container: bool = False
    is_batch_second: bool = False


@dataclass(frozen=True, slots=True)
class AlphaState:
    """One trainable LearnableAlpha.

    Args:
        path: Its position in the module tree.
        parameter: The name of its raw parameter in the block's ``named_parameters()``.
        value: Its value; None if there are no values, on the meta device.
        tanh: How far its raw parameter has gone, ``|tanh(raw)|``; None if there are no values.
        free_from: Lower end of the range in which it is not saturated.
        free_to: Upper end of that range.
    """

    path: str
    parameter: str
    value: float | None
    tanh: float | None
    free_from: float
    free_to: float


@dataclass(frozen=True, slots=True)
class LayoutGuess:
    """An Apply whose feature dimension no layer told, so that the shapes of the run had to.

    Args:
        path: The Apply's position in the module tree.
        purpose: What the dimension is needed for: ``concat``, ``projection`` or ``gates``.
        dim: The dimension that was taken, from 0.
        shape: The shape of the current tensor.
        is_forced: Whether the block could not have run with another dimension.
    """

    path: str
    purpose: Literal["concat", "projection", "gates"]
    dim: int
    shape: Shape
    is_forced: bool


@dataclass(frozen=True, slots=True)
class FittingInput:
    """Inputs near the given one for which an Apply that failed does not fail: they were run.

    Args:
        given: The shape of the first input.
        multiple: What the differing sizes have to be multiples of.
        dims: The dimensions of the input where that is so.
        shapes: Shapes that fit, the smaller one first.
    """

    given: Shape
    multiple: int
    dims: tuple[int, ...]
    shapes: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class BackwardRun:
    """What one backward pass left.

    Args:
        without_gradient: Names of the trainable parameters that got no gradient.
        error: What the backward pass raised; empty if it came through.
    """

    without_gradient: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that the rules look at.

    Args:
        layers: The rows of the run.
        edges: The skips of the run.
        failure: Where it stopped, if it did.
        placements: The Records and Applies in the order of the structure.
        traits: What layers do beyond their sizes, by the index of the row; plain layers are left out.
        unchanged: The rows of the Applies whose current tensor was the recorded tensor itself.
        alphas: The trainable LearnableAlphas.
        unsettled: Names of the parameters that have no size yet.
        can_materialize: Whether the block has the method that settles them.
        guesses: The Applies whose feature dimension was guessed.
        fitting: Inputs that fit where this one did not.
        needs_data: Why a large block ran on the CPU, if it did.
        backward: What one backward pass left; None without one.
    """

    layers: tuple[LayerFact, ...]
    edges: tuple[EdgeFact, ...]
    failure: Failure | None
    placements: tuple[Placement, ...]
    traits: Mapping[int, Traits] = field(default_factory=dict)
    unchanged: frozenset[int] = frozenset()
    alphas: tuple[AlphaState, ...] = ()
    unsettled: tuple[str, ...] = ()
    can_materialize: bool = True
    guesses: tuple[LayoutGuess, ...] = ()
    fitting: FittingInput | None = None
    needs_data: Finding | None = None
    backward: BackwardRun | None = None

    def traits_of(self, row: LayerFact) -> Traits:
        """Say what a layer does beyond its sizes.

        Args:
            row: Its row.
        """
        return self.traits.get(row.index, _PLAIN)


_PLAIN = Traits()
