"""``rescli env``."""

from __future__ import annotations

import json
import platform
from typing import TYPE_CHECKING

import torch

from rescli import __version__

if TYPE_CHECKING:
    from tests.rescli.cli.conftest import RunRescli


def test_a_bug_report_has_the_versions_and_the_machine(rescli: RunRescli) -> None:
    ended = rescli("env")
    assert (ended.code, ended.err) == (0, "")
    facts = {line[:13].strip(): line[13:].strip() for line in ended.out.splitlines()}
    assert facts["rescli"] == __version__
    assert facts["python"] == platform.python_version()
    assert facts["torch"] == torch.__version__
    assert facts["torch threads"].startswith(f"{torch.get_num_threads()} in an operation")
    assert {"typer", "rich", "torchinfo", "torchresidual", "system", "cpu", "cores"} <= set(facts)


def test_the_same_facts_are_a_document_for_programs(rescli: RunRescli) -> None:
    document = json.loads(rescli("env", "--format", "json").out)
    assert document["schema"] == "rescli.env/1"
    assert document["environment"]["torch"] == torch.__version__
    assert document["environment"]["threads"] == torch.get_num_threads()
    assert document["packages"]["typer"] is not None
    assert document["torchresidual"]["ours"] is True
