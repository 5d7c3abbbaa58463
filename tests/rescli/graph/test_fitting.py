from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from rescli.graph.diagnostics.evidence import FittingInput
from rescli.graph.fitting import fitting_input
from rescli.graph.model import Failure, LayerFact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rescli.graph.model import Shape


def listing(*sizes: int) -> list[LayerFact]:
    """Make the rows of layers that give pictures of these sides."""
    return [
        LayerFact(
            index=index,
            path=str(index),
            kind="layer",
            type="Layer",
            depth=1,
            output_shape=(1, 4, size, size),
            dtype="float32",
            parameters=0,
            flops=0,
            reused=False,
            detail="",
            output="",
        )
        for index, size in enumerate(sizes)
    ]


def failure(recorded: Shape | None, current: Shape | None) -> Failure:
    return Failure("9", "Apply", "", "no", recorded_shape=recorded, current_shape=current)


def fit(sizes: Sequence[int], given: int, fits: Sequence[int]) -> FittingInput | None:
    """Look for sides that fit, of a block whose layers gave these, where only some sides fit."""

    def runs(inputs: Sequence[object]) -> bool:
        (resized,) = inputs
        assert isinstance(resized, torch.Tensor)
        return resized.shape[-1] in fits

    end = failure((1, 4, 5, 5), (1, 4, 4, 4))
    return fitting_input(listing(*sizes), end, [torch.zeros(1, 3, given, given)], runs)


def test_the_total_stride_is_the_multiple_and_both_neighbours_are_tried() -> None:
    assert fit((50, 25, 12, 24), 100, (96, 104)) == FittingInput(
        given=(1, 3, 100, 100), multiple=8, dims=(2, 3), shapes=((1, 3, 96, 96), (1, 3, 104, 104))
    )


def test_only_what_has_run_is_proposed() -> None:
    found = fit((50, 25, 12, 24), 100, (104,))
    assert found is not None
    assert found.shapes == ((1, 3, 104, 104),)
    assert fit((50, 25, 12, 24), 100, ()) is None


@pytest.mark.parametrize(
    ("sizes", "multiple"),
    [
        ((7, 3, 1), 8),  # rounded down each time
        ((8, 4, 2), 8),  # rounded up each time
        ((13, 6, 12), 2),  # borders of convolutions without padding are lost, and a doubling is no stride
    ],
)
def test_strides_are_read_off_the_sizes(sizes: Sequence[int], multiple: int) -> None:
    found = fit(sizes, 15, range(100))
    assert found is not None
    assert found.multiple == multiple


def test_nothing_is_proposed_where_all_sizes_are_multiples_already() -> None:
    assert fit((8, 4, 8), 16, range(100)) is None


@pytest.mark.parametrize(
    ("recorded", "current"),
    [
        (None, (1, 4, 4, 4)),
        ((1, 4, 5, 5), None),
        ((2, 4, 5, 5), (1, 4, 4, 4)),  # another batch
        ((1, 4, 5), (1, 4, 4)),  # not the input's number of dimensions
        ((1, 4, 5, 5), (1, 8, 5, 5)),  # only the channels differ
    ],
)
def test_a_difference_of_another_kind_has_no_fitting_input(
    recorded: Shape | None, current: Shape | None
) -> None:
    rows, given = listing(50, 25, 12), [torch.zeros(1, 3, 100, 100)]
    assert fitting_input(rows, failure(recorded, current), given, lambda _: True) is None
    assert fitting_input(rows, failure((1, 4, 5, 5), (1, 4, 4, 4)), given, lambda _: True) is not None


def test_an_input_that_is_no_tensor_is_not_resized() -> None:
    end = failure((1, 4, 5, 5), (1, 4, 4, 4))
    assert fitting_input(listing(50), end, [[1, 2]], lambda _: True) is None
    assert fitting_input(listing(50), end, [], lambda _: True) is None
