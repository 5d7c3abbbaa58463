"""What specs import from their own folders."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rescli.spec.load import load
from rescli.spec.target import parse_target

if TYPE_CHECKING:
    from tests.rescli.spec.conftest import WriteSpec

SPEC = "from common_to_both import width\n"


def width_of(target: str) -> object:
    return load(parse_target(target)).find("width")


def test_each_spec_gets_the_sibling_of_its_own_folder(write_spec: WriteSpec) -> None:
    for folder, width in (("a", 1), ("b", 2)):
        write_spec(f"width = {width}\n", f"{folder}/common_to_both.py")
        write_spec(SPEC, f"{folder}/net.py")
    assert [width_of(f"{folder}/net.py") for folder in "aba"] == [1, 2, 1]


def test_each_spec_gets_the_package_of_its_own_folder(write_spec: WriteSpec) -> None:
    for folder, width in (("a", 1), ("b", 2)):
        write_spec("", f"{folder}/package_of_each/__init__.py")
        write_spec(f"width = {width}\n", f"{folder}/package_of_each/sizes.py")
        write_spec("from package_of_each.sizes import width\n", f"{folder}/net.py")
    assert [width_of(f"{folder}/net.py") for folder in "ab"] == [1, 2]


def test_a_spec_may_change_the_path_itself(write_spec: WriteSpec) -> None:
    spec = "import sys\nsys.path.pop(0)\nwidth = 3\n"
    before = list(sys.path)
    assert width_of(write_spec(spec)) == 3
    assert sys.path == before
