"""Parameters that have no size yet, and those that a backward pass does not reach."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from rescli.graph.diagnostics.rule import Finding, counted, listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rescli.graph.diagnostics.evidence import Evidence


def unsettled_parameters(evidence: Evidence) -> Iterator[Finding]:
    """Find parameters that get their size in the first run."""
    names = evidence.unsettled
    if not names:
        return
    how = "materialize(example) settles them" if evidence.can_materialize else "a first run settles them"
    yield Finding(
        names[0].rpartition(".")[0] if len({name.rpartition(".")[0] for name in names}) == 1 else "",
        f"{counted(len(names), 'parameter')} without a size before the first run: {listed(names)}",
        f"{how}; do it before DataParallel, DDP, FSDP, compile and export",
    )


def no_gradient(evidence: Evidence) -> Iterator[Finding]:
    """Find trainable parameters that one backward pass gave no gradient."""
    if evidence.backward is None:
        return
    owners: dict[str, list[str]] = defaultdict(list)
    for parameter in evidence.backward.without_gradient:
        owner, _, name = parameter.rpartition(".")
        owners[owner].append(name)
    for owner, names in owners.items():
        verb = "gets" if len(names) == 1 else "get"
        yield Finding(
            owner,
            f"{listed(names)} {verb} no gradient in a backward pass from all outputs",
            "let it reach the output, take it out, or freeze it with requires_grad_(False); "
            "DistributedDataParallel would wait for its gradient",
        )


def backward_failed(evidence: Evidence) -> Iterator[Finding]:
    """Find a backward pass that raises where the forward pass did not."""
    if evidence.backward is not None and evidence.backward.error:
        yield Finding(
            "",
            f"the backward pass failed: {evidence.backward.error}",
            "torch.autograd.set_detect_anomaly(True) shows which forward operation it belongs to",
        )
