"""What a block keeps of its plan, and what it needs to know of itself when it has none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchresidual.apply import Apply
from torchresidual.epoch import EDITS
from torchresidual.planning import wants_sizes
from torchresidual.record import Record

if TYPE_CHECKING:
    from torch import nn

    from torchresidual.plan import Plan
    from torchresidual.written import Written


class PlanCache:
    """Holds a block's plan beside its own state: what is derived is neither saved, copied nor replicated."""

    __slots__ = ("epoch", "names", "plan", "records", "sized", "unsettled", "written")

    def __init__(self) -> None:
        self.plan: Plan | None = None
        self.written: Written | None = None  # the forward by that plan, as if written by hand
        self.unsettled = False  # whether a further layer may tell a size that is wanted
        # What appending needs to know when there is no plan.
        self.records: set[int] = set()
        self.names: set[str] = set()
        self.sized = False
        self.epoch = -1

    def keep(self, plan: Plan, written: Written | None) -> None:
        """Keep a plan that was made anew."""
        self.plan, self.written = plan, written
        self.records, self.names = set(plan.names), set(plan.names.values())
        self.sized, self.epoch = plan.sized, plan.epoch

    def takes_quietly(self, module: nn.Module) -> bool:
        """Say whether a module behind the others changes no name and no size, so that nothing need be planned yet."""
        if self.epoch != EDITS.count:
            return False
        if isinstance(module, Record):
            return not (
                module.need_projection or id(module) in self.records or module._given_name in self.names
            )
        if isinstance(module, Apply):
            return not (self.sized or wants_sizes(module))
        return not (module._modules or self.unsettled)

    def take(self, module: nn.Module) -> None:
        """Note a module behind the others; the next call makes a plan."""
        self.plan = self.written = None
        if not isinstance(module, Record):
            return
        number = len(self.records) + 1
        while f"record_{number}" in self.names:
            number += 1
        module.__dict__["_automatic_name"] = None if module._given_name else f"record_{number}"
        self.records.add(id(module))
        self.names.add(module.name or "")
