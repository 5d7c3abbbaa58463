"""What the text of a TARGET means."""

from __future__ import annotations

from pathlib import Path

import pytest

from rescli.errors import SpecError
from rescli.spec.target import parse_target, quick_targets, shipped_specs

SHIPPED = (
    "basic",
    "concat",
    "encoder",
    "gpt2_block",
    "highway",
    "learnable_alpha",
    "lstm",
    "mobilenet_v2",
    "multiple_skips",
    "nested",
    "projection",
    "resnet18",
    "resnet50",
    "rezero_layer",
    "transformer",
    "transformer_base_layer",
    "unet",
)
LARGE = {"gpt2_block", "mobilenet_v2", "resnet18", "resnet50", "unet"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(text: str) -> SpecError:
    with pytest.raises(SpecError) as caught:
        parse_target(text)
    return caught.value


def test_a_file_is_meant_whole() -> None:
    Path("net.py").touch()
    target = parse_target("net.py")
    assert (target.kind, target.source, target.path, target.name) == ("file", "net.py", Path("net.py"), None)
    assert target.label("block") == "net.py:block"


def test_a_name_behind_a_colon_means_one_block() -> None:
    Path("net.py").touch()
    target = parse_target("net.py:block")
    assert (target.kind, target.source, target.name) == ("file", "net.py", "block")


def test_a_file_whose_own_name_has_a_colon_wins() -> None:
    Path("net.py:block").touch()
    target = parse_target("net.py:block")
    assert (target.path, target.name) == (Path("net.py:block"), None)


def test_a_file_needs_no_ending() -> None:
    Path("net").touch()
    assert parse_target("net").kind == "file"


def test_a_dotted_module_with_a_name_is_imported_later() -> None:
    target = parse_target("json.decoder:JSONDecoder")
    assert (target.kind, target.source, target.path, target.name) == (
        "module",
        "json.decoder",
        None,
        "JSONDecoder",
    )
    assert target.label("JSONDecoder") == "json.decoder:JSONDecoder"


def test_a_package_of_this_folder_is_found(folder: Path) -> None:
    (folder / "mynets").mkdir()
    (folder / "mynets" / "__init__.py").touch()
    assert parse_target("mynets.small:net").kind == "module"


def test_a_shipped_name_means_its_file() -> None:
    target = parse_target("resnet18")
    assert target.kind == "shipped"
    assert target.path is not None
    assert target.path.name == "resnet18.py"
    assert target.label("resnet18") == "shipped:resnet18"


@pytest.mark.parametrize("text", ["basic:block", "shipped:basic"])
def test_what_results_call_a_shipped_spec_is_a_target_again(text: str) -> None:
    target = parse_target(text)
    assert (target.kind, target.source) == ("shipped", "basic")


def test_a_local_file_wins_over_a_shipped_name() -> None:
    Path("resnet18").touch()
    assert parse_target("resnet18").kind == "file"


def test_a_local_folder_does_not_hide_a_shipped_name() -> None:
    Path("basic").mkdir()
    assert parse_target("basic").kind == "shipped"


@pytest.mark.parametrize("text", ["C:\\nets\\spec.py", "C:/nets/spec.py"])
def test_the_colon_of_a_drive_separates_no_name(text: str) -> None:
    assert f"there is no file {text}" in refused(text).message


def test_a_drive_and_a_name_are_two_colons() -> None:
    Path("C:\\spec.py").touch()  # an ordinary name where a backslash separates nothing
    target = parse_target("C:\\spec.py:block")
    assert (target.source, target.name) == ("C:\\spec.py", "block")


def test_a_missing_file_is_answered_with_its_neighbour() -> None:
    Path("network.py").touch()
    error = refused("netwrok.py")
    assert error.message == "there is no file netwrok.py"
    assert error.hint == "did you mean network.py?"


def test_a_missing_file_with_a_name_is_answered_alike() -> None:
    Path("network.py").touch()
    assert refused("netwrok.py:block").hint == "did you mean network.py?"


def test_a_missing_folder_is_named() -> None:
    assert refused("nets/small.py").message == "there is no file nets/small.py: there is no folder nets"


@pytest.mark.parametrize(("text", "meant"), [("resnet8", "resnet18"), ("transfomer", "transformer")])
def test_a_misspelt_shipped_name_is_answered_with_the_closest(text: str, meant: str) -> None:
    error = refused(text)
    assert error.message == f"there is no file and no shipped spec {text!r}"
    assert error.hint == f"did you mean {meant}?"


def test_a_forgotten_ending_is_noticed() -> None:
    Path("mynet.py").touch()
    assert refused("mynet").hint == "did you mean mynet.py?"


def test_a_folder_is_answered_with_its_files() -> None:
    Path("nets").mkdir()
    Path("nets/a.py").touch()
    error = refused("nets")
    assert error.message == "nets is a folder, not a spec"
    assert error.hint == f"name a file in it: {Path('nets/a.py')}"


def test_a_module_without_a_name_is_answered_with_the_form() -> None:
    error = refused("json.decoder")
    assert error.message == "json.decoder names a module, but no block in it"
    assert error.hint == "for instance json.decoder:name"


def test_a_package_that_is_not_there_is_refused() -> None:
    assert refused("nosuchpackage.nets:block").message == (
        "there is no file, module or shipped spec nosuchpackage.nets"
    )


@pytest.mark.parametrize("text", ["", ":", ":x", "x:", "a b:c", "\0", "x" * 5000, "spec.txt"])
def test_nonsense_is_refused_and_the_forms_are_named(text: str) -> None:
    assert refused(text).hint != ""


def test_all_shipped_specs_are_listed_by_name() -> None:
    assert tuple(spec.name for spec in shipped_specs()) == SHIPPED


def test_each_shipped_spec_says_what_it_shows_in_a_line_that_fits_a_terminal() -> None:
    for spec in shipped_specs():
        assert 20 <= len(spec.summary) <= 49, spec


def test_the_quick_set_is_all_but_the_large_networks() -> None:
    assert quick_targets() == tuple(name for name in SHIPPED if name not in LARGE)
