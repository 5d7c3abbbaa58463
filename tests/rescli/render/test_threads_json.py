from __future__ import annotations

import json

from rescli.render.threads_json import threads_json
from tests.rescli.render.test_threads_text import ALL, SHARED


def test_every_field_of_a_result_is_there_under_its_name() -> None:
    found = json.loads(threads_json(ALL))
    assert found["schema"] == "rescli.threads/1"
    assert [row["status"] for row in found["results"]] == ["warn", "fail", "pass", "fail", "skip"]
    row = found["results"][2]
    assert row == {
        "name": "keeps",
        "target": "net.py:keeps",
        "scenario": "replicas",
        "status": "pass",
        "runs": 62,
        "wrong": 0,
        "bound": 2,
        "threads": 2,
        "points": 5,
        "schedules": 62,
        "schedule": None,
        "detail": "all 62 schedules right (2 threads, 5 points each, at most 2 preemptions)",
        "changed": [],
        "failure": None,
    }
    assert found["results"][0]["changed"] == ["kept"]


def test_a_failure_lists_wrong_values_and_steps() -> None:
    (row,) = json.loads(threads_json((SHARED,)))["results"]
    assert row["schedule"] == "shared:A1,B3,A,B"
    assert row["failure"]["wrong"][1] == {
        "thread": "A",
        "value": "gradient of input 0",
        "found": "0.134854",
        "expected": "0.678593 (where it is worst; 128 of 128 values differ)",
    }
    steps = row["failure"]["steps"]
    assert len(steps) == 12
    assert steps[0] == {
        "thread": "A",
        "event": "entry",
        "path": "first",
        "type": "Linear",
        "file": None,
        "line": None,
        "hands_over": True,
    }
    assert steps[-1] == {
        "thread": "B",
        "event": "end",
        "path": None,
        "type": None,
        "file": None,
        "line": None,
        "hands_over": False,
    }
