"""Which names of a spec file are blocks, and in which order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rescli.spec.load import load
from rescli.spec.target import parse_target

if TYPE_CHECKING:
    from pathlib import Path

    from tests.rescli.spec.conftest import WriteSpec


def listed(target: str) -> list[str]:
    return [definition.name for definition in load(parse_target(target)).listed]


def test_modules_and_factories_stand_in_the_order_of_their_definition(write_spec: WriteSpec) -> None:
    spec = """
        first = nn.Linear(2, 2)
        def second() -> nn.Module:
            return nn.Linear(3, 3)
        third = nn.Linear(4, 4)
        def fourth(width: int = 4) -> ResidualSequential:
            return ResidualSequential(nn.Linear(width, width))
    """
    assert listed(write_spec(spec)) == ["first", "second", "third", "fourth"]


def test_the_last_definition_of_a_name_gives_its_place(write_spec: WriteSpec) -> None:
    spec = """
        block = nn.Linear(2, 2)
        other = nn.Linear(3, 3)
        block = nn.Linear(4, 4)
    """
    assert listed(write_spec(spec)) == ["other", "block"]


def test_a_name_that_the_loader_gave_can_be_taken(write_spec: WriteSpec) -> None:
    assert listed(write_spec("first = nn.Linear(2, 2)\nF = nn.Linear(3, 3)\n")) == ["first", "F"]


def test_a_module_inside_another_one_is_not_listed(write_spec: WriteSpec) -> None:
    spec = """
        inner = nn.Linear(2, 2)
        layers = [nn.Linear(2, 2)]
        outer = nn.Sequential(inner, nn.Sequential(*layers))
    """
    assert listed(write_spec(spec)) == ["outer"]


def test_a_module_inside_a_list_alone_is_listed_if_it_has_a_name(write_spec: WriteSpec) -> None:
    assert listed(write_spec("one = nn.Linear(2, 2)\nlayers = [one]\n")) == ["one"]


def test_an_object_with_two_names_is_listed_once(write_spec: WriteSpec) -> None:
    spec = """
        first = nn.Linear(2, 2)
        alias = first
        def make() -> nn.Module:
            return nn.Linear(2, 2)
        make_again = make
    """
    assert listed(write_spec(spec)) == ["first", "make"]


def test_imported_objects_are_not_listed(write_spec: WriteSpec) -> None:
    write_spec(
        """
        from torch import nn
        ready = nn.Linear(2, 2)
        other = nn.Linear(2, 2)
        def make() -> nn.Module:
            return nn.Linear(2, 2)
        """,
        "library_of_blocks.py",
    )
    spec = """
        from library_of_blocks import make, ready as imported
        from library_of_blocks import *
        own = nn.Sequential(imported)
        wrapper = other
    """
    assert listed(write_spec(spec)) == ["own"]


def test_an_imported_name_that_is_bound_anew_is_listed(write_spec: WriteSpec) -> None:
    write_spec("from torch import nn\nready = nn.Linear(2, 2)\n", "library_of_ready.py")
    spec = """
        from library_of_ready import ready
        ready = nn.Sequential(ready)
    """
    assert listed(write_spec(spec)) == ["ready"]


def test_private_names_losses_and_bare_alphas_are_not_listed(write_spec: WriteSpec) -> None:
    spec = """
        _hidden = nn.Linear(2, 2)
        def _make() -> nn.Module:
            return nn.Linear(2, 2)
        loss = nn.CrossEntropyLoss()
        alpha = LearnableAlpha(0.5)
        Net = nn.Linear
        class Own(nn.Module):
            pass
        block = nn.Linear(2, 2)
    """
    assert listed(write_spec(spec)) == ["block"]


@pytest.mark.parametrize(
    "annotation",
    [
        "nn.Module",
        "nn.Sequential",
        "ResidualSequential",
        "'nn.Module'",
        "'ResidualSequential | None'",
        "nn.Linear | nn.Conv1d",
        "'N.Sequential'",  # as if N were imported for type checkers only
        "Annotated[nn.Module, 'big']",
        "Optional[nn.Module]",
    ],
)
def test_a_return_annotation_may_promise_a_module_in_many_ways(
    write_spec: WriteSpec, annotation: str
) -> None:
    spec = (
        f"from typing import Annotated, Optional\ndef make() -> {annotation}:\n    return nn.Linear(2, 2)\n"
    )
    assert listed(write_spec(spec)) == ["make"]


@pytest.mark.parametrize(
    "annotation",
    ["None", "int", "torch.Tensor", "type[nn.Module]", "list[nn.Module]", "'nn.Module | int'", "'no such'"],
)
def test_another_return_annotation_promises_none(write_spec: WriteSpec, annotation: str) -> None:
    assert listed(write_spec(f"def make() -> {annotation}:\n    return nn.Linear(2, 2)\n")) == []


def test_postponed_annotations_are_resolved(write_spec: WriteSpec) -> None:
    spec = """
        from __future__ import annotations
        from collections.abc import Iterable
        def make(sizes: Iterable[Nowhere] = ()) -> ResidualSequential:
            return ResidualSequential(nn.Linear(2, 2))
    """
    assert listed(write_spec(spec)) == ["make"]


def test_a_function_that_needs_an_argument_is_no_block(write_spec: WriteSpec) -> None:
    spec = """
        def needs(width: int) -> nn.Module:
            return nn.Linear(width, width)
        def needs_by_name(*, width: int) -> nn.Module:
            return nn.Linear(width, width)
        def takes_any(*args: int, **options: int) -> nn.Module:
            return nn.Linear(2, 2)
        async def later() -> nn.Module:
            return nn.Linear(2, 2)
        def unannotated():
            return nn.Linear(2, 2)
    """
    assert listed(write_spec(spec)) == ["takes_any"]


def test_a_cached_factory_is_one(write_spec: WriteSpec) -> None:
    spec = """
        import functools
        @functools.cache
        def make() -> nn.Module:
            return nn.Linear(2, 2)
    """
    assert listed(write_spec(spec)) == ["make"]


def test_what_is_defined_under_a_condition_or_in_a_loop_counts(write_spec: WriteSpec) -> None:
    spec = """
        late = nn.Linear(1, 1)
        for width in (2, 3):
            looped = nn.Linear(width, width)
        if True:
            conditional = nn.Linear(2, 2)
        (walrus := nn.Linear(2, 2))
        left, right = nn.Linear(2, 2), nn.Linear(3, 3)
        [late for late in ()]
        globals()["dynamic"] = nn.Linear(2, 2)
    """
    assert listed(write_spec(spec)) == [
        "late",
        "looped",
        "conditional",
        "walrus",
        "left",
        "right",
        "dynamic",
    ]


def test_listing_does_not_call_a_factory(write_spec: WriteSpec, tmp_path: Path) -> None:
    spec = """
        from pathlib import Path
        def make() -> nn.Module:
            Path(__file__).with_name("called").touch()
            return nn.Linear(2, 2)
    """
    assert listed(write_spec(spec)) == ["make"]
    assert not (tmp_path / "called").exists()
