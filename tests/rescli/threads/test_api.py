from __future__ import annotations

import inspect
import subprocess
import sys

import pytest
import torch
from torch import nn

import rescli
from rescli.errors import CommandLineError, SpecError
from rescli.threads.limits import SCENARIOS, Limits
from tests.rescli.threads.planted import KeepsMean, TwoLayers, example


def test_a_race_is_found_and_replayed_from_python() -> None:
    module = KeepsMean()
    (found,) = rescli.check_threads(module, example(3), scenarios=["shared"])
    assert (found.name, found.target, found.status, found.runs) == ("KeepsMean", "KeepsMean", "fail", 62)
    (again,) = rescli.check_threads(module, [example(3)], replay=found.schedule)
    assert (again.status, again.runs, again.failure) == ("fail", 1, found.failure)


def test_inputs_are_worked_out_from_the_layers_and_every_scenario_is_tried() -> None:
    found = rescli.check_threads(
        nn.Sequential(nn.Linear(3, 3)), schedules=4, iterations=2, random_schedules=0
    )
    assert tuple(result.scenario for result in found) == tuple(SCENARIOS)
    assert {result.status for result in found} == {"pass", "skip"}


def test_threads_and_the_batch_dimension_are_taken() -> None:
    module = nn.Sequential(nn.LSTM(4, 4))
    (found,) = rescli.check_threads(
        module, torch.randn(6, 3, 4), scenarios=["replicas"], threads=3, schedules=4, lines=False, batch_dim=1
    )
    assert (found.status, found.threads) == ("warn", 3)


def test_the_defaults_are_those_of_the_command() -> None:
    given = inspect.signature(rescli.check_threads).parameters
    defaults = Limits()
    for name in ("iterations", "preemptions", "schedules", "random_schedules", "lines", "max_time_s", "seed"):
        assert given[name].default == getattr(defaults, name)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scenarios": ["idle"]}, "there is no scenario 'idle'"),
        ({"threads": 9}, "threads=9: there can be 2 to 8"),
        ({"replay": "stress:A1,B,A"}, "replay='stress:A1,B,A': stress is no scenario with schedules"),
        ({"replay": "A1,B,A"}, "replay='A1,B,A': this is no schedule"),
    ],
)
def test_a_wrong_argument_is_refused_by_name(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(CommandLineError) as caught:
        rescli.check_threads(KeepsMean(), example(3), **arguments)  # type: ignore[arg-type] # one of several
    assert str(caught.value).startswith(message)


def test_what_the_module_raises_alone_is_raised() -> None:
    with pytest.raises(NotImplementedError):
        rescli.check_threads(TwoLayers(), example(3), scenarios=["shared"])


def test_without_inputs_and_without_layers_there_is_nothing_to_call_it_with() -> None:
    with pytest.raises(SpecError, match="cannot be worked out"):
        rescli.check_threads(nn.ReLU())


def test_importing_rescli_does_not_import_torch() -> None:
    code = "import sys, rescli; rescli.check_threads; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
