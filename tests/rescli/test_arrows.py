"""Who may import whom: the arrows between the rooms of the house, and what stays free of torch."""

from __future__ import annotations

import ast
import fnmatch
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from rescli.cli.app import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PACKAGES = ("rescli", "torchresidual")
# What must be importable in the time that --help takes. Everything else of the rooms may use torch.
TORCH_FREE = (
    "rescli",
    "rescli.__main__",
    "rescli.errors",
    "rescli.units",
    "rescli.cli",
    "rescli.cli.*",
    "rescli.packages",
    "rescli.packages.*",
    "rescli.render",
    "rescli.render.*",
    "rescli.*.model",
    "rescli.*.result",
    "rescli.spec.blame",
    "rescli.spec.request",
    "rescli.spec.shape",
    "rescli.spec.siblings",
    "rescli.spec.target",
    "rescli.bench.failure",
    "rescli.bench.stats",
    "rescli.graph.diagnose",
    "rescli.graph.diagnostics",
    "rescli.graph.diagnostics.*",
    "rescli.graph.fold",
    "rescli.graph.held",
    "rescli.graph.outline.*",
    "rescli.threads.limits",
    "rescli.threads.schedule",
)
RENDER_MAY_USE = ("rescli.*.model", "rescli.*.result", "rescli.units", "rescli.render", "rescli.render.*")


When = Literal["at once", "later", "never"]


@dataclass(frozen=True)
class Import:
    """One import line: who, what, and when it runs: with the module, in a function, or for type checkers."""

    importer: str
    imported: str
    when: When


class Tree:
    """The import lines of a source tree."""

    def __init__(self, root: Path) -> None:
        self.files = {name: path for package in PACKAGES for name, path in _modules(root, package)}
        self.imports = {name: tuple(self._read(name, path)) for name, path in self.files.items()}

    def _read(self, name: str, path: Path) -> Iterator[Import]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        at_once = set(map(id, _run_on_import(tree)))
        never = {id(inner) for node in ast.walk(tree) if _for_types(node) for inner in ast.walk(node)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = list(self._from(name, node))
            else:
                continue
            for imported in names:
                when: When = "never" if id(node) in never else "at once" if id(node) in at_once else "later"
                yield Import(name, imported, when)

    def _from(self, importer: str, node: ast.ImportFrom) -> Iterator[str]:
        assert node.level == 0, f"{importer} has a relative import: the arrows are read from full names"
        assert node.module is not None
        for alias in node.names:
            inner = f"{node.module}.{alias.name}"
            yield inner if inner in self.files else node.module

    def runs(self, name: str) -> Iterator[str]:
        """Name what is imported when a module is: its own lines and the packages it lies in."""
        yield from (line.imported for line in self.imports[name] if line.when == "at once")
        yield from _packages_around(name)

    def way_to(self, start: str, goal: str) -> tuple[str, ...]:
        """Find the chain of imports from one of our modules to a foreign package; empty if there is none."""
        ways: dict[str, tuple[str, ...]] = {start: (start,)}
        waiting = [start]
        while waiting:
            here = waiting.pop()
            for imported in self.runs(here):
                way = (*ways[here], imported)
                if imported.partition(".")[0] == goal:
                    return way
                for module in (imported, *_packages_around(imported)):
                    if module in self.files and module not in ways:
                        ways[module] = way
                        waiting.append(module)
        return ()


def _modules(root: Path, package: str) -> Iterator[tuple[str, Path]]:
    for path in sorted((root / package).rglob("*.py")):
        if "_specs" not in path.parts:
            parts = path.relative_to(root).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def _packages_around(name: str) -> Iterator[str]:
    while "." in name:
        name = name.rpartition(".")[0]
        yield name


def _run_on_import(node: ast.AST) -> Iterator[ast.AST]:
    """Walk what Python executes when it imports the module."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        if _for_types(child):
            continue
        yield child
        yield from _run_on_import(child)


def _for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def torch_where_it_must_not_be(tree: Tree) -> list[str]:
    ways = (tree.way_to(name, "torch") for name in tree.files if _matches(name, TORCH_FREE))
    return [" -> ".join(way) for way in ways if way]


def imports_of_the_command_line(tree: Tree) -> list[str]:
    return [
        f"{line.importer} -> {line.imported}"
        for lines in tree.imports.values()
        for line in lines
        if f"{line.imported}.".startswith("rescli.cli.")
        and line.importer != "rescli.__main__"
        and not f"{line.importer}.".startswith("rescli.cli.")
    ]


def foreign_imports_of_the_library(tree: Tree) -> list[str]:
    own = {"torch", "torchresidual", *sys.stdlib_module_names}
    return [
        f"{line.importer} -> {line.imported}"
        for name, lines in tree.imports.items()
        if name.partition(".")[0] == "torchresidual"
        for line in lines
        if line.imported.partition(".")[0] not in own and line.when != "never"
    ]


def what_render_must_not_use(tree: Tree) -> list[str]:
    return [
        f"{line.importer} -> {line.imported}"
        for name, lines in tree.imports.items()
        if f"{name}.".startswith("rescli.render.")
        for line in lines
        if line.imported.partition(".")[0] not in sys.stdlib_module_names
        and not _matches(line.imported, RENDER_MAY_USE)
    ]


@pytest.fixture(scope="module")
def ours() -> Tree:
    return Tree(ROOT)


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A small house in which every arrow points the right way."""
    for name, text in {
        "rescli/__init__.py": "",
        "rescli/__main__.py": "from rescli.cli.app import run\n",
        "rescli/units.py": "import math\n",
        "rescli/cli/__init__.py": "",
        "rescli/cli/app.py": "def run():\n    import torch\n    from rescli.spec.load import load\n",
        "rescli/spec/__init__.py": "",
        "rescli/spec/load.py": "import torch\n",
        "rescli/spec/target.py": (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from torch import nn\n"
        ),
        "rescli/graph/__init__.py": "",
        "rescli/graph/model.py": "import dataclasses\n",
        "rescli/render/__init__.py": "",
        "rescli/render/text.py": "import json\nfrom rescli.graph.model import Graph\nfrom rescli.units import x\n",
        "torchresidual/__init__.py": "import threading\nimport torch\nfrom torchresidual.core import Record\n",
        "torchresidual/core.py": "",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def test_what_help_needs_is_free_of_torch(ours: Tree) -> None:
    assert torch_where_it_must_not_be(ours) == []


def test_the_patterns_of_what_is_free_of_torch_all_mean_something(ours: Tree) -> None:
    assert [p for p in TORCH_FREE if not any(_matches(name, (p,)) for name in ours.files)] == []


def test_nobody_imports_the_command_line(ours: Tree) -> None:
    assert imports_of_the_command_line(ours) == []


def test_the_library_imports_torch_and_the_standard_library_only(ours: Tree) -> None:
    assert foreign_imports_of_the_library(ours) == []


def test_render_knows_facts_and_units_only(ours: Tree) -> None:
    assert what_render_must_not_use(ours) == []


def test_a_house_in_order_is_not_complained_about(planted: Path) -> None:
    tree = Tree(planted)
    assert torch_where_it_must_not_be(tree) == []
    assert imports_of_the_command_line(tree) == []
    assert foreign_imports_of_the_library(tree) == []
    assert what_render_must_not_use(tree) == []


@pytest.mark.parametrize(
    ("file", "text", "way"),
    [
        ("rescli/units.py", "import torch\n", "rescli.units -> torch"),
        ("rescli/cli/app.py", "from torch.nn import Linear\n", "rescli.cli.app -> torch.nn"),
        (
            "rescli/cli/app.py",
            "from rescli.spec.load import load\n",
            "rescli.cli.app -> rescli.spec.load -> torch",
        ),
        (
            "rescli/cli/app.py",
            "from rescli.spec import load\n",
            "rescli.cli.app -> rescli.spec.load -> torch",
        ),
        (
            "rescli/cli/app.py",
            "try:\n    import torch\nexcept ImportError:\n    pass\n",
            "rescli.cli.app -> torch",
        ),
        ("rescli/cli/app.py", "class A:\n    import torch\n", "rescli.cli.app -> torch"),
        ("rescli/spec/target.py", "import torchresidual\n", "rescli.spec.target -> torchresidual -> torch"),
        ("rescli/graph/__init__.py", "import torch\n", "rescli.graph.model -> rescli.graph -> torch"),
    ],
)
def test_torch_in_the_wrong_place_is_found_with_its_way(
    planted: Path, file: str, text: str, way: str
) -> None:
    (planted / file).write_text(text, encoding="utf-8")
    assert way in torch_where_it_must_not_be(Tree(planted))


@pytest.mark.parametrize("text", ["import rescli.cli\n", "def f():\n    from rescli.cli.app import run\n"])
def test_a_room_that_imports_the_command_line_is_found(planted: Path, text: str) -> None:
    (planted / "rescli/graph/model.py").write_text(text, encoding="utf-8")
    (found,) = imports_of_the_command_line(Tree(planted))
    assert found.startswith("rescli.graph.model -> rescli.cli")


@pytest.mark.parametrize("name", ["rescli.units", "numpy", "rich"])
def test_a_library_that_imports_more_is_found(planted: Path, name: str) -> None:
    (planted / "torchresidual/core.py").write_text(f"def f():\n    import {name}\n", encoding="utf-8")
    assert foreign_imports_of_the_library(Tree(planted)) == [f"torchresidual.core -> {name}"]


@pytest.mark.parametrize("name", ["rescli.spec.load", "rescli.cli.app", "rescli.graph", "torch", "rich"])
def test_a_renderer_that_computes_is_found(planted: Path, name: str) -> None:
    (planted / "rescli/render/text.py").write_text(f"import {name}\n", encoding="utf-8")
    assert what_render_must_not_use(Tree(planted)) == [f"rescli.render.text -> {name}"]


def loaded_by(arguments: list[str], path: Path | None = None) -> set[str]:
    """Run a command line in an interpreter of its own and see which packages it has loaded at the end."""
    code = (
        "import sys; from rescli.cli.app import run; code = run(sys.argv[1:]);"
        "print(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr); sys.exit(code)"
    )
    environ = {**os.environ, **({"PYTHONPATH": str(path)} if path else {})}
    command = [sys.executable, "-c", code, *arguments]
    # -c looks into the current folder first.
    done = subprocess.run(command, capture_output=True, text=True, env=environ, cwd=path or ROOT, check=True)
    assert done.stdout.startswith("Usage: rescli") or "--version" in arguments
    return set(done.stderr.split())


@pytest.mark.parametrize(
    "arguments",
    [["--version"], ["--help"], *([name, "--help"] for name in COMMANDS)],
    ids=" ".join,
)
def test_help_leaves_torch_and_rich_alone(arguments: list[str]) -> None:
    loaded = loaded_by(arguments)
    assert "typer" in loaded
    assert loaded.isdisjoint({"torch", "torchresidual", "torchinfo", "numpy", "rich"})


def test_help_that_imports_torch_is_found(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "rescli", tmp_path / "rescli", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "torch.py").touch()  # enough to be imported, and faster than the real one
    options = tmp_path / "rescli" / "cli" / "options.py"
    options.write_text(f"{options.read_text(encoding='utf-8')}\nimport torch\n", encoding="utf-8")
    assert "torch" not in loaded_by(["--help"], tmp_path)
    assert "torch" in loaded_by(["show", "--help"], tmp_path)
