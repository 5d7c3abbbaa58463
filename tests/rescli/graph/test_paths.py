from __future__ import annotations

from torch import nn

from rescli.graph.paths import CallPaths


def test_an_object_placed_twice_gets_each_of_its_places_in_turn() -> None:
    shared = nn.ReLU()
    block = nn.Sequential(shared, nn.Linear(2, 2), shared)
    paths = CallPaths(block)
    assert [paths.path(block, "", shared, before) for before in range(3)] == ["0", "2", "0"]


def test_the_path_of_a_call_begins_with_the_path_of_its_caller() -> None:
    inner = nn.Sequential(nn.ReLU())
    block = nn.Sequential(inner, inner)
    paths = CallPaths(block)
    assert [paths.path(inner, place, inner[0], 0) for place in ("0", "1")] == ["0.0", "1.0"]


def test_layers_in_a_list_that_nobody_calls_are_found_below_it() -> None:
    block = nn.Module()
    deep = nn.Tanh()
    block.layers = nn.ModuleList([nn.ReLU(), nn.ModuleDict({"a": deep})])
    assert CallPaths(block).path(block, "9", deep, 0) == "9.layers.1.a"


def test_a_module_called_by_one_it_does_not_belong_to_keeps_its_place_in_the_block() -> None:
    caller, called = nn.Sequential(nn.ReLU()), nn.Tanh()
    paths = CallPaths(nn.Sequential(caller, nn.Sequential(called)))
    assert paths.path(caller, "0", called, 0) == "1.0"
    assert paths.path(caller, "0", nn.Sigmoid(), 0) == "0"
