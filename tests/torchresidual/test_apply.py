from __future__ import annotations

import torch
from torch import nn

from tests.torchresidual.toys import apply_in
from torchresidual import Apply, LearnableAlpha, Record, ResidualSequential
from torchresidual.core import RecordedTensor, recorded_for


def test_alpha_and_scale_are_where_torch_looks_for_them() -> None:
    apply = Apply(alpha=LearnableAlpha(0.5), scale=nn.Parameter(torch.ones(3)))
    assert sorted(name for name, _ in apply.named_parameters()) == ["alpha.param", "scale"]
    assert [name for name, _ in Apply(alpha=torch.tensor(0.5)).named_buffers()] == ["alpha"]
    assert Apply(alpha=2).alpha == 2.0
    assert list(Apply(alpha=0.5).state_dict()) == []


def test_alpha_may_be_assigned_later() -> None:
    block = ResidualSequential(Record(), nn.Hardtanh(), Apply(alpha=1.0))
    x = torch.tensor([3.0])
    for alpha in (0.5, 2, LearnableAlpha(0.25), torch.tensor(0.75)):
        apply_in(block).__dict__.pop("alpha", None)
        apply_in(block)._modules.pop("alpha", None)
        apply_in(block).alpha = alpha
        value = alpha() if isinstance(alpha, LearnableAlpha) else alpha
        torch.testing.assert_close(block(x), 1 + value * x)


def test_a_recorded_tensor_may_broadcast_to_x() -> None:
    class Grows(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.expand(4, 3).contiguous()

    for shape in ((1, 3), (3,), (1, 1)):
        r = torch.randn(shape)
        grown = r.expand(4, 3)
        for operation, expected in (
            ("add", grown + 0.5 * r),
            ("multiply", grown * (1 + 0.5 * r)),
            ("gated", 0.5 * grown + 0.5 * r),
        ):
            block = ResidualSequential(Record(), Grows(), Apply(operation, alpha=0.5))
            torch.testing.assert_close(block(r), expected)


def test_an_operation_may_be_written_in_capitals() -> None:
    assert Apply("ADD").operation == "add"


def test_the_representation_shows_what_was_given() -> None:
    assert repr(Apply()) == "Apply(operation='add', record_name=None, alpha=1.0)"
    assert (
        repr(
            Apply(
                "concat",
                "r",
                LearnableAlpha(0.5),
                scale=nn.Parameter(torch.ones(2)),
                projection=nn.Linear(2, 2),
                dim=1,
            )
        )
        == "Apply(operation='concat', record_name='r', alpha=LearnableAlpha(value=0.5000, space=linear, "
        "bounds=[0, 1]), scale=Parameter(2,), projection=Linear(2, 2), dim=1)"
    )


def test_a_hook_learns_what_an_apply_is_about_to_read() -> None:
    seen: list[RecordedTensor] = []
    record = Record(name="r")
    block = ResidualSequential(
        nn.Sequential(record), nn.Hardtanh(), ResidualSequential(Apply(record_name="r"))
    )
    apply_in(block).register_forward_pre_hook(lambda module, _: seen.append(recorded_for(module)))
    x = torch.tensor([3.0])
    block(x)
    (entry,) = seen
    assert entry.record is record
    assert entry.name == "r"
    assert entry.tensor is x
    assert entry.block is block


def test_a_step_of_training_moves_every_parameter() -> None:
    block = ResidualSequential(
        Record(need_projection=True),
        nn.Linear(4, 6),
        Apply("highway"),
        Record(),
        nn.Linear(6, 6),
        Apply("gated", alpha=LearnableAlpha(0.5), scale=nn.Parameter(torch.ones(6))),
    )
    optimizer = torch.optim.SGD(block.parameters(), lr=0.1)
    before = [parameter.detach().clone() for parameter in block.parameters()]
    assert len(before) == 2 + 6 + 2 + 2
    block(torch.randn(8, 4)).square().sum().backward()
    optimizer.step()
    assert all(not torch.equal(a, b) for a, b in zip(before, block.parameters(), strict=True))


def test_functional_call_and_vmap_see_other_parameters() -> None:
    block = ResidualSequential(
        Record(need_projection=True), nn.Linear(3, 5), Apply("gated", alpha=LearnableAlpha(0.5))
    )
    x = torch.randn(4, 3)
    zeros = {name: torch.zeros_like(parameter) for name, parameter in block.named_parameters()}
    assert torch.equal(torch.func.functional_call(block, zeros, (x,)), torch.zeros(4, 5))
    stacked = {name: torch.stack([p.detach(), 2 * p.detach()]) for name, p in block.named_parameters()}
    out = torch.vmap(lambda parameters: torch.func.functional_call(block, parameters, (x,)))(stacked)
    torch.testing.assert_close(out[0], block(x))
    torch.testing.assert_close(torch.vmap(block)(x), block(x))
