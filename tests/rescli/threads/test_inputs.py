from __future__ import annotations

import torch

from rescli.errors import SpecError
from rescli.threads.inputs import equal_inputs, varied_inputs
from tests.rescli.threads.planted import PaperBlock, TwoLayers

TOKENS = torch.arange(12).reshape(3, 4)
PLANE = torch.linspace(0, 1, 12).reshape(3, 4)


class Rigid(PaperBlock):
    """A block whose inputs cannot be resized."""

    def resized(self, batch_size: int) -> tuple[torch.Tensor, ...]:
        raise SpecError(f"{batch_size} does not fit")


class Resized(PaperBlock):
    """Says which size it was asked for."""

    def resized(self, batch_size: int) -> tuple[torch.Tensor, ...]:
        return tuple(torch.zeros(4, batch_size) for _ in self.inputs)


def block(*inputs: torch.Tensor) -> PaperBlock:
    return PaperBlock(TwoLayers(), inputs)


def test_each_thread_has_a_batch_size_of_its_own() -> None:
    assert [own[0].shape[0] for own in varied_inputs(block(PLANE), 4, 0)] == [3, 4, 5, 6]


def test_the_batch_dimension_is_the_blocks_own() -> None:
    made = varied_inputs(Resized(TwoLayers(), (torch.zeros(4, 7),), batch_dim=1), 3, 0)
    assert [tuple(own[0].shape) for own in made] == [(4, 7), (4, 8), (4, 9)]


def test_where_no_size_can_be_had_all_have_the_same() -> None:
    made = varied_inputs(Rigid(TwoLayers(), (PLANE,)), 3, 0)
    assert [own[0].shape[0] for own in made] == [3, 3, 3]
    scalar = varied_inputs(block(torch.tensor(2.0)), 2, 0)
    assert [own[0].shape for own in scalar] == [(), ()]


def test_a_threads_input_depends_on_the_seed_and_not_on_how_many_threads_there_are() -> None:
    two, five = equal_inputs(block(PLANE), 2, 0), equal_inputs(block(PLANE), 5, 0)
    assert all(torch.equal(one[0], other[0]) for one, other in zip(two, five, strict=False))
    assert not torch.equal(two[0][0], equal_inputs(block(PLANE), 2, 1)[0][0])


def test_integers_stay_what_they_are_in_another_order() -> None:
    for own in equal_inputs(block(TOKENS), 3, 0):
        assert own[0].dtype == torch.int64
        assert sorted(own[0].flatten().tolist()) == list(range(12))
        assert not torch.equal(own[0], TOKENS)


def test_floats_stay_in_their_range_and_differ_between_threads_even_if_all_are_equal() -> None:
    first, second = equal_inputs(block(torch.ones(3, 4)), 2, 0)
    assert first[0].tolist() == [[1.0] * 4] * 3
    assert second[0].tolist() == [[1 - 1 / 32] * 4] * 3
    assert float(equal_inputs(block(PLANE), 8, 0)[7][0].min()) >= 0


def test_the_users_tensors_are_left_alone() -> None:
    given = PLANE.clone().requires_grad_()
    own = equal_inputs(block(given), 1, 0)[0][0]
    own.add_(1)
    assert torch.equal(given.detach(), PLANE)
    assert not own.requires_grad
