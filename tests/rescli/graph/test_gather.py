from __future__ import annotations

import torch
from torch import nn

from rescli.graph.diagnostics.evidence import Placement
from rescli.graph.gather import placements
from tests.rescli.graph.finding import found
from torchresidual import Apply, LearnableAlpha, Record, ResidualSequential


def test_records_and_applies_are_listed_with_their_scopes() -> None:
    inner = ResidualSequential(Record(name="b"), Apply("concat", "b", alpha=0.5))
    block = ResidualSequential(
        Record(True, "a"),
        nn.Sequential(Apply(record_name="a", projection=nn.Identity())),
        inner,
    )
    assert placements(block) == (
        Placement("0", "record", "a", "", need_projection=True),
        Placement("1.0", "apply", "a", "", operation="add", has_own_projection=True),
        Placement("2.0", "record", "b", "2"),
        Placement("2.1", "apply", "b", "2", operation="concat", ignores_alpha=True),
    )


def test_one_object_in_two_places_is_listed_twice() -> None:
    shared = ResidualSequential(Record(name="r"), nn.Linear(4, 4), Apply(record_name="r"))
    block = nn.Sequential(shared, shared)
    assert [place.path for place in placements(block)] == ["0.0", "0.2", "1.0", "1.2"]


def test_looking_for_diagnostics_leaves_the_block_alone() -> None:
    block = ResidualSequential(
        Record(True, "a"), nn.Dropout(0.5), nn.Linear(4, 8), Apply(record_name="a", scale=LearnableAlpha(0.5))
    )
    before = {name: each.clone() for name, each in block.state_dict().items()}
    state = torch.get_rng_state()
    found(block, backward=True)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(each, before[name]) for name, each in block.state_dict().items())
    assert all(each.grad is None for each in block.parameters())
    assert block.training
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in block.modules())
