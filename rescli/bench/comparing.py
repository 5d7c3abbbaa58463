"""From the series of an engine to comparisons of variants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rescli.bench.compare import MARGIN, judge, paired_ratio
from rescli.bench.engine import BLOCK
from rescli.bench.result import Comparison
from rescli.bench.subject import side_by_side
from rescli.bench.variant import SINGLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rescli.bench.result import PassName
    from rescli.bench.rows import Case
    from rescli.bench.subject import Series


def compare_variants(
    series: Sequence[Series], cases: Mapping[str, Case], passes: Sequence[PassName], *, seed: int = 0
) -> Iterator[Comparison]:
    """Compare each variant with the block, pass by pass.

    Args:
        series: What an engine has measured.
        cases: What the rows of each variant share.
        passes: Which passes are wanted.
        seed: Decides the resamples.
    """
    found = {(one.variant, one.pass_name): one for one in series}
    for (variant, name), of_b in found.items():
        of_a = found.get((BLOCK, name))
        if variant == BLOCK or of_a is None or name not in passes:
            continue
        pairs = [pair for pair in zip(*side_by_side(of_a, of_b), strict=True) if min(pair) > 0]
        if not pairs:
            continue
        ratio = paired_ratio([a for a, _ in pairs], [b for _, b in pairs], seed=seed)
        case = cases[BLOCK]
        yield Comparison(
            a=case.target,
            b=variant if cases[variant].target == case.target else cases[variant].target,
            kind="scaling" if variant == SINGLE else "versus",
            name=case.name,
            device=case.device,
            dtype=case.dtype,
            pass_name=name,
            batch_size=case.batch_size,
            ratio=ratio.ratio,
            ci95=ratio.ci95,
            verdict=judge(ratio),
            margin=MARGIN,
            paired=True,
            pairs=len(pairs),
            variant=variant,
            workers=case.workers if variant == SINGLE else None,
        )
