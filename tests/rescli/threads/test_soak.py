"""What the check must say every time, a hundred times: ``pytest -m soak tests/rescli/threads/test_soak.py``.

The suite runs each of these a few times, and the schedules of one scenario a hundred times (``test_lines.py``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.rescli.threads.planted import (
    ALL,
    HARMLESS,
    CachesShape,
    HooksInForward,
    KeepsByName,
    KeepsInput,
    KeepsMean,
    KeepsOuter,
    MakesLayer,
    ScalesGradient,
    check,
    replay,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn

pytestmark = pytest.mark.soak

TIMES = 100
FAULTS = [
    *((make, "shared") for make in (KeepsInput, KeepsMean, KeepsByName, CachesShape, ScalesGradient)),
    *((make, "shared") for make in (HooksInForward, MakesLayer)),
    (KeepsByName, "replicas"),
    (KeepsOuter, "nested"),
    (MakesLayer, "lazy"),
    (KeepsInput, "copies"),
    (KeepsMean, "exception"),
]


@pytest.mark.parametrize("make", HARMLESS)
@pytest.mark.parametrize("scenario", ["shared", "replicas"])
def test_each_harmless_look_alike_passes_every_time(make: Callable[[], nn.Module], scenario: str) -> None:
    limits = replace(ALL, schedules=62)
    statuses = [check(make(), scenario, limits).status for _ in range(TIMES)]
    assert statuses.count("pass") == TIMES


@pytest.mark.parametrize(("make", "scenario"), FAULTS)
def test_the_schedule_of_each_planted_fault_fails_in_every_replay(
    make: Callable[[], nn.Module], scenario: str
) -> None:
    module = make()
    found = check(module, scenario, ALL)
    assert found.schedule is not None
    again = [replay(module, found.schedule) for _ in range(TIMES)]
    assert [result.failure for result in again] == [found.failure] * TIMES
    assert {result.status for result in again} == {"fail"}
