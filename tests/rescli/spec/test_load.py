"""Running the code of a spec."""

from __future__ import annotations

import copy
import pickle
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn
from torch.nn import functional

import torchresidual
from rescli.errors import SpecError
from rescli.spec.load import LoadedSpec, load
from rescli.spec.target import parse_target

if TYPE_CHECKING:
    from tests.rescli.spec.conftest import WriteSpec


def loaded(target: str) -> LoadedSpec:
    return load(parse_target(target))


def refused(target: str) -> SpecError:
    with pytest.raises(SpecError) as caught:
        loaded(target)
    return caught.value


def test_torch_and_the_library_are_there_without_an_import(write_spec: WriteSpec) -> None:
    namespace = vars(loaded(write_spec("made = OrderedDict(a=1)\n")).module)
    assert namespace["torch"] is torch
    assert namespace["nn"] is nn
    assert namespace["F"] is functional
    for name in torchresidual.__all__:
        assert namespace[name] is getattr(torchresidual, name)


def test_a_spec_runs_as_a_module_not_as_a_script(write_spec: WriteSpec) -> None:
    spec = loaded(write_spec("ran = []\nif __name__ == '__main__':\n    ran.append(1)\n"))
    assert spec.find("ran") == []


def test_objects_of_its_classes_can_be_copied_and_pickled(write_spec: WriteSpec) -> None:
    spec = """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(2, 2)
        net = Net()
    """
    net = loaded(write_spec(spec)).find("net")
    assert isinstance(net, nn.Module)
    assert type(copy.deepcopy(net)) is type(net)
    assert type(pickle.loads(pickle.dumps(net))) is type(net)  # noqa: S301 - our own bytes


def test_two_specs_of_one_name_do_not_mix(write_spec: WriteSpec) -> None:
    first = loaded(write_spec("class Net(nn.Module):\n    kind = 1\nnet = Net()\n", "a/net.py"))
    second = loaded(write_spec("class Net(nn.Module):\n    kind = 2\nnet = Net()\n", "b/net.py"))
    nets = [spec.find("net") for spec in (first, second)]
    assert [pickle.loads(pickle.dumps(net)).kind for net in nets] == [1, 2]  # noqa: S301 - our own bytes


def test_postponed_annotations_and_dataclasses_work_together(write_spec: WriteSpec) -> None:
    spec = """
        from __future__ import annotations
        import dataclasses
        @dataclasses.dataclass
        class Sizes:
            width: int = 4
            names: dataclasses.InitVar[list[str]] = None
        block = nn.Linear(Sizes().width, 1)
    """
    assert [definition.name for definition in loaded(write_spec(spec)).listed] == ["block"]


def test_the_loaders_own_future_imports_do_not_reach_the_spec(write_spec: WriteSpec) -> None:
    spec = loaded(write_spec("def make() -> nn.Module:\n    return nn.Linear(1, 1)\n"))
    assert vars(spec.module)["make"].__annotations__ == {"return": nn.Module}


def test_a_spec_that_parses_a_command_line_finds_an_empty_one(write_spec: WriteSpec) -> None:
    before = list(sys.argv)
    spec = """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--width", type=int, default=6)
        width = parser.parse_args().width
    """
    assert loaded(write_spec(spec)).find("width") == 6
    assert sys.argv == before


def test_data_and_modules_beside_the_spec_are_found(write_spec: WriteSpec) -> None:
    write_spec("7", "deep/width.txt")
    write_spec("def double(x):\n    return 2 * x\n", "deep/sibling_of_net.py")
    spec = """
        from pathlib import Path
        from sibling_of_net import double
        width = double(int(Path(__file__).with_name("width.txt").read_text()))
    """
    assert loaded(write_spec(spec, "deep/net.py")).find("width") == 14
    assert str(Path("deep").resolve()) not in sys.path


def test_a_file_in_another_encoding_says_so_itself(write_spec: WriteSpec, tmp_path: Path) -> None:
    name = write_spec("")
    (tmp_path / name).write_bytes("# coding: latin-1\nword = 'Größe'\n".encode("latin-1"))
    assert loaded(name).find("word") == "Größe"


def test_an_exception_shows_the_traceback_from_the_spec_on(write_spec: WriteSpec) -> None:
    write_spec("def deep():\n    raise ValueError('width must be even')\n", "helper_that_raises.py")
    error = refused(write_spec("import helper_that_raises\nhelper_that_raises.deep()\n"))
    assert error.message == "net.py could not be loaded"
    lines = error.details.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert "net.py" in lines[1]
    assert ", line 2, in <module>" in lines[1]
    assert "helper_that_raises.py" in error.details
    assert lines[-1] == "ValueError: width must be even"
    assert "rescli/" not in error.details


def test_a_cause_is_cut_to_the_same_part(write_spec: WriteSpec) -> None:
    spec = """
        try:
            {}["width"]
        except KeyError as error:
            raise RuntimeError("no width") from error
    """
    details = refused(write_spec(spec)).details
    assert "KeyError: 'width'" in details
    assert "RuntimeError: no width" in details
    assert "rescli/" not in details


def test_a_syntax_error_shows_its_place_alone(write_spec: WriteSpec) -> None:
    error = refused(write_spec("block = nn.Linear(\n"))
    assert error.message == "net.py could not be loaded"
    assert ", line 1" in error.details
    assert "SyntaxError: '(' was never closed" in error.details
    assert "Traceback" not in error.details


def test_a_missing_import_says_where_to_install_it(write_spec: WriteSpec) -> None:
    error = refused(write_spec("import nosuchpackage.inner\n"))
    assert "No module named 'nosuchpackage'" in error.details
    assert error.hint == (
        f"install nosuchpackage for {sys.executable}, or put nosuchpackage.py beside the spec"
    )


def test_sys_exit_ends_the_spec_not_rescli(write_spec: WriteSpec) -> None:
    error = refused(write_spec("import sys\nsys.exit('enough')\n"))
    assert error.details.splitlines()[-1] == "SystemExit: enough"
    assert error.hint == 'what only a script should do belongs under `if __name__ == "__main__":`'


def test_endless_recursion_is_reported_shortly(write_spec: WriteSpec) -> None:
    error = refused(write_spec("def again(n):\n    return again(n + 1)\nagain(0)\n"))
    assert "RecursionError" in error.details
    assert len(error.details.splitlines()) < 20


def test_bytes_that_are_no_text_are_refused(write_spec: WriteSpec, tmp_path: Path) -> None:
    name = write_spec("")
    (tmp_path / name).write_bytes(b"\x00\xff\x00")
    assert "SyntaxError" in refused(name).details


def test_a_module_that_was_never_initialised_is_refused(write_spec: WriteSpec) -> None:
    spec = """
        class Net(nn.Module):
            def __init__(self):
                pass
        net = Net()
    """
    error = refused(write_spec(spec))
    assert error.message == "net.py could not be loaded"
    assert "_modules" in error.details


def test_ctrl_c_in_a_spec_passes(write_spec: WriteSpec) -> None:
    with pytest.raises(KeyboardInterrupt):
        loaded(write_spec("raise KeyboardInterrupt\n"))


def test_a_spec_that_failed_leaves_no_module_behind(write_spec: WriteSpec) -> None:
    before = {name for name in sys.modules if name.startswith("_rescli_spec_")}
    refused(write_spec("raise ValueError\n"))
    assert {name for name in sys.modules if name.startswith("_rescli_spec_")} == before


def test_a_name_that_is_not_there_is_answered_with_the_closest(write_spec: WriteSpec) -> None:
    with pytest.raises(SpecError, match=r"net\.py defines no encodr") as caught:
        loaded(write_spec("encoder = nn.Linear(2, 2)\n")).find("encodr")
    assert caught.value.hint == "did you mean net.py:encoder?"


def test_a_name_unlike_all_others_is_answered_with_the_blocks(write_spec: WriteSpec) -> None:
    with pytest.raises(SpecError) as caught:
        loaded(write_spec("encoder = nn.Linear(2, 2)\n")).find("xyz")
    assert caught.value.hint == "its blocks are encoder"


def test_an_importable_module_is_imported_once_as_itself(write_spec: WriteSpec) -> None:
    write_spec("from torch import nn\nblock = nn.Linear(2, 2)\n", "package_of_nets/small.py")
    spec = loaded("package_of_nets.small:block")
    assert spec.module is sys.modules["package_of_nets.small"]
    assert spec.file == Path("package_of_nets/small.py").resolve()
    assert spec.listed == ()


def test_a_module_that_raises_shows_its_own_part(write_spec: WriteSpec) -> None:
    write_spec("1 / 0\n", "package_that_raises/small.py")
    error = refused("package_that_raises.small:block")
    assert error.message == "package_that_raises.small could not be imported"
    assert "small.py" in error.details.splitlines()[1]
    assert "importlib" not in error.details


def test_a_module_that_is_not_in_its_package_is_refused() -> None:
    error = refused("json.nosuch:block")
    assert error.hint == "json is installed, json.nosuch is not in it"
