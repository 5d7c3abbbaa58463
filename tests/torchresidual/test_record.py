from __future__ import annotations

import torch
from torch import Tensor, nn

from torchresidual import Apply, Record, ResidualSequential


def test_a_record_returns_what_it_is_given() -> None:
    x = torch.ones(2)
    assert Record()(x) is x


def test_a_record_in_a_block_keeps_nothing() -> None:
    record = Record(name="r")
    block = ResidualSequential(record, nn.Identity(), Apply())
    x = torch.ones(2)
    block(x)
    assert record.recorded_tensor is None
    assert record.recorded_shape is None


def test_the_representation_shows_its_arguments() -> None:
    assert repr(Record(name="r")) == "Record(need_projection=False, name='r')"
    assert repr(Record(need_projection=True)) == "Record(need_projection=True, name=None)"


def test_hooks_on_records_and_applies_see_what_passes() -> None:
    seen: dict[str, tuple[Tensor, Tensor]] = {}
    block = ResidualSequential(Record(name="r"), nn.Hardtanh(), Apply(record_name="r"))
    block[0].register_forward_hook(lambda _, args, out: seen.update(record=(args[0], out)))
    block[2].register_forward_hook(lambda _, args, out: seen.update(apply=(args[0], out)))
    block(torch.tensor([3.0]))
    assert [value.item() for value in seen["record"]] == [3.0, 3.0]
    assert [value.item() for value in seen["apply"]] == [1.0, 4.0]


def test_a_hook_that_changes_the_output_changes_the_result() -> None:
    block = ResidualSequential(Record(name="r"), nn.Hardtanh(), Apply(record_name="r"))
    handle = block[2].register_forward_hook(lambda _, __, out: out * 10)
    assert torch.equal(block(torch.tensor([3.0])), torch.tensor([40.0]))
    handle.remove()
    assert torch.equal(block(torch.tensor([3.0])), torch.tensor([4.0]))


def test_a_class_of_the_users_own_is_called() -> None:
    class Doubles(Record):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(2 * x)

    class Negates(Apply):
        def forward(self, x: Tensor) -> Tensor:
            return -super().forward(x)

    block = ResidualSequential(Doubles(name="r"), nn.Hardtanh(), Negates(record_name="r"))
    assert torch.equal(block(torch.tensor([3.0])), torch.tensor([-7.0]))
