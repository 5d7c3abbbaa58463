"""One block for each diagnostic, named after its code."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from torchresidual import Apply, LearnableAlpha, Record, ResidualSequential

example_inputs = {
    "unknown_record": (2, 4),
    "apply_before_record": (2, 4),
    "shape_mismatch": (1, 3, 100, 100),
    "in_place_write": (2, 4),
    "layer_failed": (2, 4),
    "backward_failed": (2, 4),
    "unused_record": (2, 4),
    "record_overwritten": (2, 4),
    "identity_skip": (2, 4),
    "broadcasting_skip": (2, 1),
    "oversized_projection": (2, 8, 5),
    "in_place_after_record": (2, 4),
    "dropout_after_apply": (2, 4),
    "alpha_saturated": (2, 4),
    "alpha_out_of_reach": (2, 4),
    "alpha_ignored": (2, 4),
    "layout_ambiguous": (2, 3, 4),
    "no_gradient": (2, 4),
    "skip_applied_twice": (2, 4),
    "unneeded_projection": (2, 4),
    "alpha_weight_decay": (2, 4),
    "batch_second": (5, 2, 4),
    "unsettled_parameters": (2, 4),
    "layout_guessed": (2, 3, 4),
    "needs_data": (1001, 1000),
}


class Padded(nn.Module):
    """Pads features; nobody can tell its sizes.

    Args:
        width: By how many.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.weight = nn.Parameter(torch.ones(100))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.pad(x, (0, self.width)) * self.weight[0]


class Idle(nn.Module):
    """Has a layer that it never calls."""

    def __init__(self) -> None:
        super().__init__()
        self.used = nn.Linear(4, 4)
        self.unused = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        used: Tensor = self.used(x)
        return used


class Writing(nn.Module):
    """Writes into its input."""

    def forward(self, x: Tensor) -> Tensor:
        x += 1.0
        return x * 2.0


class Closed(torch.autograd.Function):
    """Has no way back."""

    @staticmethod
    def forward(_: object, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(_: object, *_grads: Tensor) -> Tensor:
        raise RuntimeError("there is no way back")


class OneWay(nn.Module):
    """Lets nothing back."""

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = Closed.apply(x)  # type: ignore[no-untyped-call]  # torch leaves it so
        return result


class Deciding(nn.Module):
    """Looks at the values."""

    def forward(self, x: Tensor) -> Tensor:
        return x if bool(x.sum() > 0) else -x


unknown_record = ResidualSequential(
    Record(name="here"), nn.Linear(4, 4), Apply(record_name="here"), Apply(record_name="there")
)
apply_before_record = ResidualSequential(
    Apply(record_name="late"),
    nn.Linear(4, 4),
    Record(name="late"),
    nn.Linear(4, 4),
    Apply(record_name="late"),
)
shape_mismatch = ResidualSequential(
    Record(name="whole"),
    nn.Conv2d(3, 8, 3, 2, 1),
    Record(name="half"),
    nn.Conv2d(8, 8, 3, 2, 1),
    nn.Conv2d(8, 8, 3, 2, 1),
    nn.Upsample(scale_factor=4),
    Apply("concat", "half"),
    nn.Upsample(scale_factor=2),
    Apply("concat", "whole"),
)
in_place_write = ResidualSequential(Record(name="r"), Writing(), Apply(record_name="r"))
layer_failed = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU(), nn.Linear(3, 3)))
backward_failed = ResidualSequential(Record(name="r"), nn.Linear(4, 4), OneWay(), Apply(record_name="r"))
unused_record = ResidualSequential(Record(name="nobody"), nn.Linear(4, 4))
record_overwritten = ResidualSequential(
    Record(name="r"), nn.Linear(4, 4), Record(name="r"), nn.Linear(4, 4), Apply(record_name="r")
)
identity_skip = ResidualSequential(nn.Linear(4, 4), Record(name="r"), nn.Identity(), Apply(record_name="r"))
broadcasting_skip = ResidualSequential(Record(name="r"), nn.Linear(1, 4), Apply(record_name="r"))
oversized_projection = ResidualSequential(
    Record(need_projection=True, name="r"), nn.Conv1d(8, 32, 1, groups=8), Apply(record_name="r")
)
in_place_after_record = ResidualSequential(
    Record(name="r"), nn.ReLU(inplace=True), nn.Linear(4, 4), Apply(record_name="r")
)
dropout_after_apply = ResidualSequential(
    Record(name="r"), nn.Linear(4, 4), Apply(record_name="r"), nn.Dropout(0.1)
)
alpha_saturated = ResidualSequential(
    Record(name="r"), nn.Linear(4, 4), Apply(record_name="r", alpha=LearnableAlpha(1.0))
)
alpha_out_of_reach = ResidualSequential(
    Record(name="r"), nn.Linear(4, 4), Apply(record_name="r", alpha=LearnableAlpha(0.5))
)
nn.init.constant_(alpha_out_of_reach.get_parameter("2.alpha.param"), 20.0)
alpha_ignored = ResidualSequential(
    Record(name="r"), nn.Linear(4, 4), Apply("concat", record_name="r", alpha=0.5)
)
layout_ambiguous = ResidualSequential(Record(name="r"), Padded(0), Apply("concat", record_name="r"))
no_gradient = ResidualSequential(Record(name="r"), Idle(), Apply(record_name="r"))
skip_applied_twice = ResidualSequential(
    Record(name="r"), nn.Linear(4, 4), Apply(record_name="r"), nn.Linear(4, 4), Apply(record_name="r")
)
unneeded_projection = ResidualSequential(
    Record(need_projection=True, name="r"), nn.Linear(4, 4), Apply(record_name="r")
)
alpha_weight_decay = ResidualSequential(
    Record(name="r"), nn.Linear(4, 4), Apply("gated", record_name="r", alpha=LearnableAlpha(0.5))
)
batch_second = nn.Sequential(nn.LSTM(4, 4))
unsettled_parameters = ResidualSequential(
    Record(need_projection=True, name="r"), Padded(2), Apply(record_name="r")
)
layout_guessed = ResidualSequential(Record(name="r"), Padded(2), Apply("concat", record_name="r"))
needs_data = nn.Sequential(nn.Linear(1000, 2), Deciding())
