from __future__ import annotations

import ast
import inspect
import sys
from pathlib import Path

import torchresidual
import torchresidual.alpha
import torchresidual.core
import torchresidual.wrappers
from torchresidual import Apply, Record, ResidualSequential

SOURCE = Path(torchresidual.__file__).parent


def test_the_public_names_are_there_and_sorted() -> None:
    assert {
        "Apply",
        "LearnableAlpha",
        "Record",
        "RecurrentWrapper",
        "ResidualError",
        "ResidualSequential",
    } <= set(torchresidual.__all__)
    assert sorted(torchresidual.__all__) == list(torchresidual.__all__)
    assert all(hasattr(torchresidual, name) for name in torchresidual.__all__)


def test_the_modules_of_the_published_library_keep_their_names() -> None:
    for name in ("Record", "Apply", "ResidualSequential", "_context"):
        assert hasattr(torchresidual.core, name)
    assert torchresidual.alpha.LearnableAlpha is torchresidual.LearnableAlpha
    assert torchresidual.wrappers.RecurrentWrapper is torchresidual.RecurrentWrapper


def test_arguments_keep_names_order_and_defaults() -> None:
    assert (
        str(inspect.signature(Record))
        == "(need_projection: 'bool' = False, name: 'str | None' = None) -> 'None'"
    )
    parameters = inspect.signature(Apply).parameters
    assert [(name, parameter.default) for name, parameter in parameters.items()] == [
        ("operation", "add"),
        ("record_name", None),
        ("alpha", 1.0),
        ("scale", 1.0),
        ("projection", None),
        ("dim", None),
    ]
    assert parameters["scale"].kind is inspect.Parameter.KEYWORD_ONLY
    assert list(inspect.signature(ResidualSequential.forward).parameters) == [
        "self",
        "x",
        "hidden",
        "module_kwargs",
    ]


def test_the_library_imports_torch_and_the_standard_library_alone() -> None:
    allowed = {"torch", "torchresidual", "__future__", *sys.stdlib_module_names}
    for path in SOURCE.glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        typing_only = {
            inner
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            for inner in ast.walk(node)
        }
        for node in ast.walk(tree):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            if node not in typing_only:
                assert {name.partition(".")[0] for name in names} <= allowed, f"{path.name} imports {names}"


def test_every_public_name_explains_itself() -> None:
    for name in torchresidual.__all__:
        assert inspect.getdoc(getattr(torchresidual, name)), name
