from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rescli.graph.diagnose import RULES

if TYPE_CHECKING:
    from tests.conftest import Golden
    from tests.rescli.cli.conftest import RunRescli

FAULTS = Path(__file__).parent / "data" / "faults.py"
EXAMPLES = Path(__file__).parents[3] / "examples"
RIGHT = 'good = ResidualSequential(Record(name="a"), nn.Linear(8, 8), Apply(record_name="a"))\n'
NOTED = "twice = ResidualSequential(Record(), nn.Linear(8, 8), Apply(), Apply())\n"
WARNED = 'unused = ResidualSequential(Record(name="a"), nn.Linear(8, 8))\n'
WRONG = 'wrong = ResidualSequential(Record(name="a"), nn.Linear(8, 4), Apply(record_name="a"))\n'
RAISES = """
class Raises(nn.Module):
    def forward(self, x):
        return x.no_such_thing()

raises = ResidualSequential(Record(name="lost"), nn.ReLU(), Raises(), Record(name="lost"))
example_inputs = (3, 8)
"""


def codes(document: str) -> dict[str, list[str]]:
    """Give the codes that were found, by the block's name."""
    blocks: Any = json.loads(document)["blocks"]
    return {block["name"]: [each["code"] for each in block["diagnostics"]] for block in blocks}


@pytest.fixture
def write(tmp_path: Path, rescli: RunRescli) -> Any:  # noqa: ANN401, ARG001 - a function; it wants the folder
    def write_spec(*texts: str, name: str = "spec.py") -> str:
        (tmp_path / name).write_text("".join(texts), encoding="utf-8")
        return name

    return write_spec


def test_a_file_with_one_fault_of_each_kind(rescli: RunRescli, tmp_path: Path, golden: Golden) -> None:
    shutil.copy(FAULTS, tmp_path / "faults.py")
    ended = rescli("lint", "faults.py", "--run")
    assert (ended.code, ended.err) == (1, "")
    golden("lint_faults.txt", ended.out)


def test_each_fault_has_a_block_of_its_name(rescli: RunRescli) -> None:
    ended = rescli("lint", str(FAULTS), "--run", "--format", "json")
    found = codes(ended.out)
    assert {name.replace("_", "-") for name in found} == {rule.code for rule in RULES}
    assert [name for name, listed in found.items() if name.replace("_", "-") not in listed] == []


def test_without_a_target_the_quick_specs_are_linted_and_none_has_a_warning(rescli: RunRescli) -> None:
    ended = rescli("lint", "--strict")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines()[-1] == "12 blocks: 3 notes"


def test_the_examples_have_no_warning(rescli: RunRescli) -> None:
    examples = sorted(str(path) for path in EXAMPLES.glob("*.py"))
    ended = rescli("lint", *examples, "--strict", "--run")
    assert len(examples) >= 3
    assert (ended.code, ended.err) == (0, "")
    assert "warning" not in ended.out


def test_all_takes_every_shipped_spec(rescli: RunRescli, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def remember(targets: list[str], *_: object) -> object:
        asked.extend(targets)
        raise KeyboardInterrupt

    monkeypatch.setattr("rescli.cli.commands.lint.for_each_target", remember)
    assert rescli("lint", "--all").code == 130
    assert {"resnet50", "basic"} <= set(asked)


@pytest.mark.parametrize(
    ("spec", "plain", "strict"),
    [((RIGHT,), 0, 0), ((NOTED,), 0, 0), ((WARNED,), 0, 1), ((WRONG,), 1, 1), ((WARNED, WRONG), 1, 1)],
    ids=["right", "noted", "warned", "wrong", "both"],
)
def test_the_exit_code_follows_the_gravest(
    spec: tuple[str, ...],
    plain: int,
    strict: int,
    rescli: RunRescli,
    write: Any,  # noqa: ANN401 - a function
) -> None:
    target = write(*spec)
    assert rescli("lint", target).code == plain
    assert rescli("lint", target, "--strict").code == strict


def test_nothing_found_is_said(rescli: RunRescli, write: Any) -> None:  # noqa: ANN401 - a function
    assert rescli("lint", write(RIGHT)).out == "1 block: nothing found\n"


def test_what_runs_backward_is_found_only_with_run(rescli: RunRescli) -> None:
    target = f"{FAULTS}:no_gradient"
    assert codes(rescli("lint", target, "--format", "json").out) == {"no_gradient": []}
    assert codes(rescli("lint", target, "--run", "--format", "json").out) == {"no_gradient": ["no-gradient"]}


def test_a_block_that_raises_is_a_finding_with_its_structure(rescli: RunRescli, write: Any) -> None:  # noqa: ANN401
    ended = rescli("lint", write(RAISES))
    assert (ended.code, ended.err) == (1, "")
    assert ended.out == (
        "spec.py:raises\n"
        "error at '2' (layer-failed): Raises failed on input (3, 8): AttributeError:\n"
        "  'Tensor' object has no attribute 'no_such_thing'\n"
        "  hint: `rescli show` prints the part of the traceback that lies in your file\n"
        "warning at '0' (record-overwritten): the record 'lost' is recorded again at '3'\n"
        "  before an Apply has read it\n"
        "  hint: give one of the two another name\n"
        "warning at '3' (unused-record): the record 'lost' is never read by an Apply\n"
        "  hint: add an Apply that names it, or take the Record out\n"
        "\n"
        "1 block: 1 error, 2 warnings\n"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "there is no file spec.py"),
        ("import no_such_package\n", "no_such_package"),
        ("x = 1\n", "spec.py defines no block"),
        ("def make() -> nn.Module:\n    raise RuntimeError('no')\n", "RuntimeError: no"),
    ],
)
def test_a_spec_that_cannot_be_found_or_loaded_ends_with_3(
    text: str | None,
    message: str,
    rescli: RunRescli,
    write: Any,  # noqa: ANN401 - a function
) -> None:
    if text is not None:
        write(text)
    ended = rescli("lint", "spec.py")
    assert (ended.code, ended.out) == (3, "")
    assert message in ended.err


def test_the_highest_code_of_several_targets_is_returned(rescli: RunRescli, write: Any) -> None:  # noqa: ANN401
    wrong, right = write(WRONG, name="wrong.py"), write(RIGHT, name="right.py")
    assert rescli("lint", wrong, right).code == 1
    ended = rescli("lint", wrong, "nowhere.py", right)
    assert ended.code == 3
    assert ended.out.endswith("2 blocks: 1 error\n")


def test_json_names_blocks_targets_and_diagnostics(rescli: RunRescli, write: Any) -> None:  # noqa: ANN401
    ended = rescli("lint", write(RIGHT, WARNED), "-o", "found.json")
    assert (ended.code, ended.out) == (0, "")
    assert json.loads(Path("found.json").read_text(encoding="utf-8")) == {
        "schema": "rescli.lint/1",
        "blocks": [
            {"name": "good", "target": "spec.py:good", "diagnostics": []},
            {
                "name": "unused",
                "target": "spec.py:unused",
                "diagnostics": [
                    {
                        "code": "unused-record",
                        "severity": "warning",
                        "path": "0",
                        "message": "the record 'a' is never read by an Apply",
                        "hint": "add an Apply that names it, or take the Record out",
                    }
                ],
            },
        ],
    }


def test_the_common_options_are_heard(rescli: RunRescli, write: Any) -> None:  # noqa: ANN401 - a function
    target = write("def block(width=8) -> nn.Module:\n    return ResidualSequential(nn.Linear(width, 8))\n")
    assert rescli("lint", target, "--set", "width=4", "--input", "2x4", "--dtype", "float64").code == 0
    ended = rescli("lint", target, "--input", "2x4", "--quiet")
    assert ended.code == 1
    assert "Linear failed on input (2, 4)" in ended.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("basic", "--all"), "--all and a TARGET were both given"),
        (("basic", "--format", "svg"), "--format svg: this command does not write that"),
        (("basic", "--severity", "error"), "no such option: --severity"),
    ],
)
def test_a_wrong_command_line_ends_with_2(
    arguments: tuple[str, ...], message: str, rescli: RunRescli
) -> None:
    ended = rescli("lint", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err
