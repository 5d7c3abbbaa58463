from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from rescli.graph.einsum import einsum_flops

EQUATIONS: dict[str, tuple[tuple[int, ...], ...]] = {
    "ij,jk->ik": ((2, 3), (3, 4)),
    "bij, bjk -> bik": ((5, 2, 3), (5, 3, 4)),
    "i,j->ij": ((3,), (4,)),
    "ij,ij->ij": ((3, 4), (3, 4)),
    "ij,ij->": ((3, 4), (3, 4)),
    "ijk,kl": ((2, 3, 4), (4, 5)),
    "...ij,...jk->...ik": ((7, 1, 2, 3), (6, 3, 4)),
    "...c,cd": ((2, 4, 3), (3, 5)),
    "bn,anm,bm->ba": ((6, 3), (5, 3, 4), (6, 4)),
    "ij,jk,kl,lm->im": ((2, 3), (3, 4), (4, 5), (5, 6)),
    "ii->i": ((3, 3),),
    "ijk->ik": ((2, 3, 4),),
    "ij,k->i": ((2, 3), (4,)),
    "nchw,cd->ndhw": ((2, 3, 4, 4), (3, 5)),
    "bhid,bhjd->bhij": ((2, 3, 4, 5), (2, 3, 6, 5)),
    "ij,jk->jik": ((2, 1), (3, 4)),
}


@pytest.mark.parametrize("equation", EQUATIONS)
def test_an_einsum_counts_what_torch_counts(equation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Where opt_einsum is installed torch asks it for the order of the products: that is another test.
    monkeypatch.setattr(torch.backends.opt_einsum, "enabled", False)
    operands = [torch.zeros(shape, device="meta") for shape in EQUATIONS[equation]]
    with FlopCounterMode(display=False) as counter:
        torch.einsum(equation, *operands)
    assert einsum_flops(equation, operands) == counter.get_total_flops()


def test_the_order_of_opt_einsum_is_taken_where_torch_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Planner:
        @staticmethod
        def contract_path(*_: object, **__: object) -> tuple[list[tuple[int, int]], str]:
            return [(1, 2), (0, 1)], "the last two first"

    monkeypatch.setattr(torch.backends.opt_einsum, "enabled", True)
    monkeypatch.setattr(torch.backends.opt_einsum, "strategy", "auto")
    monkeypatch.setattr("rescli.graph.einsum.opt_einsum.is_available", lambda: True)
    monkeypatch.setattr("rescli.graph.einsum.opt_einsum.get_opt_einsum", Planner)
    operands = [torch.zeros(2, 3), torch.zeros(3, 4), torch.zeros(4, 5)]
    assert einsum_flops("ij,jk,kl->il", operands) == 2 * (3 * 4 * 5) + 2 * (2 * 3 * 5)
