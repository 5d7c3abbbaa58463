from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Golden
    from tests.rescli.cli.conftest import RunRescli

BROKEN = """
print("made while loading")

block = ResidualSequential(
    nn.Linear(8, 4),
    nn.Sequential(nn.ReLU(), nn.Linear(8, 2)),
)
example_inputs = (3, 8)
"""
RAISES = """
class Raises(nn.Module):
    def forward(self, x):
        return x.no_such_thing()

block = nn.Sequential(nn.ReLU(), Raises())
example_inputs = (3, 8)
"""


@pytest.mark.parametrize("target", ["encoder", "highway", "nested", "resnet18"])
def test_shipped_specs_are_shown(target: str, rescli: RunRescli, golden: Golden) -> None:
    ended = rescli("show", target)
    assert (ended.code, ended.err) == (0, "")
    golden(f"show_{target}.txt", ended.out)


def test_json_has_the_projection_with_its_price(rescli: RunRescli) -> None:
    ended = rescli("show", "projection", "--format", "json")
    assert ended.code == 0
    document = json.loads(ended.out)
    assert document["schema"] == "rescli.show/1"
    ((edge,),) = (block["edges"] for block in document["blocks"])
    projection = edge["projection"]
    assert (projection["type"], projection["detail"], projection["parameters"]) == (
        "Linear",
        "64 -> 128",
        8320,
    )


def test_several_targets_are_one_document(rescli: RunRescli) -> None:
    ended = rescli("show", "basic", "concat", "--format", "json")
    blocks = json.loads(ended.out)["blocks"]
    assert [block["target"] for block in blocks] == ["shipped:basic", "shipped:concat"]


def test_the_input_can_be_given(rescli: RunRescli) -> None:
    ended = rescli("show", "basic", "--input", "3x64", "--dtype", "float64", "--format", "json")
    (block,) = json.loads(ended.out)["blocks"]
    assert block["inputs"] == [{"shape": [3, 64], "dtype": "float64", "origin": "option"}]
    assert block["outputs"] == [{"shape": [3, 64], "dtype": "float64"}]
    assert block["flops"] == 2 * 3 * 64 * 64
    assert "input   (3, 64) float32 from the command line\n" in rescli("show", "basic", "--input", "3x64").out


def test_a_batch_size_resizes_the_input(rescli: RunRescli) -> None:
    ended = rescli("show", "resnet18", "--batch-size", "2", "--format", "json")
    (block,) = json.loads(ended.out)["blocks"]
    assert block["inputs"][0]["shape"] == [2, 3, 224, 224]
    assert block["flops"] == 2 * 3_628_146_688


def test_a_block_that_cannot_run_is_shown_up_to_the_layer_that_fails(
    rescli: RunRescli, tmp_path: Path, golden: Golden
) -> None:
    (tmp_path / "broken.py").write_text(BROKEN)
    ended = rescli("show", "broken.py")
    assert ended.code == 3
    golden("show_broken.txt", ended.out)
    assert ended.err == (
        "made while loading\n"
        "Error: broken.py:block could not be run: Linear at '1.1' failed, given (3, 4)\n"
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (3x4 and 8x2)\n"
    )


def test_an_error_of_the_users_own_shows_its_part_of_the_traceback(rescli: RunRescli, tmp_path: Path) -> None:
    (tmp_path / "raises.py").write_text(RAISES)
    ended = rescli("show", "raises.py")
    assert ended.code == 3
    assert "(layer-failed): Raises failed on input (3, 8): AttributeError" in ended.out
    assert 'raises.py", line 4, in forward' in ended.err
    assert "rescli/" not in ended.err


def test_one_block_that_fails_does_not_stop_the_others(rescli: RunRescli, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(BROKEN)
    ended = rescli("show", "broken.py", "nowhere.py", "basic", "--format", "json")
    assert ended.code == 3
    blocks = json.loads(ended.out)["blocks"]
    assert [(block["target"], bool(block["failure"])) for block in blocks] == [
        ("broken.py:block", True),
        ("shipped:basic", False),
    ]
    assert "there is no file nowhere.py" in ended.err


def test_without_anything_to_show_nothing_is_printed(rescli: RunRescli, tmp_path: Path) -> None:
    ended = rescli("show", "nowhere.py", "-o", "graph.json")
    assert (ended.code, ended.out) == (3, "")
    assert not (tmp_path / "graph.json").exists()


def test_the_ending_of_the_file_tells_the_format(rescli: RunRescli, tmp_path: Path) -> None:
    assert rescli("show", "basic", "-o", "graph.json").out == ""
    assert (
        json.loads((tmp_path / "graph.json").read_text(encoding="utf-8"))["blocks"][0]["parameters"] == 4288
    )


def test_a_file_has_no_colours_and_all_characters(
    rescli: RunRescli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in rescli("show", "basic").out
    rescli("show", "basic", "-o", "graph.txt")
    text = (tmp_path / "graph.txt").read_text(encoding="utf-8")
    assert "\x1b" not in text
    assert " ◆─╯  4  Apply add ← input" in text


def test_layers_adds_the_table_of_torchinfo_without_its_totals(rescli: RunRescli) -> None:
    ended = rescli("show", "projection", "--layers")
    assert ended.code == 0
    table = ended.out.partition("built  known\n\n")[2]
    assert "├─Linear (1)" in table
    assert "│    └─Linear (projection_layer)" in table
    assert "[8, 64]" in table
    assert "Total" not in table
    assert "Mult-adds" not in table


REPEATS = """
def block(name):
    return ResidualSequential(Record(name=name), nn.Linear(8, 8), Apply(record_name=name))

deep = nn.Sequential(*(block("r") for _ in range(12)))
flat = nn.Sequential(nn.Linear(8, 4), *(layer for _ in range(6) for layer in (nn.Linear(4, 4), nn.ReLU())))
"""


def listed(text: str) -> list[str]:
    """Give the lines of the listings, without the signs in the gutter."""
    return [line.split(None, 1)[1] for line in text.splitlines() if line.startswith((" ●", " ○", " ◆", " ▾"))]


def test_equal_neighbours_are_folded_unless_somebody_wants_them_all(
    rescli: RunRescli, tmp_path: Path
) -> None:
    (tmp_path / "repeats.py").write_text(REPEATS)
    folded = rescli("show", "repeats.py:deep").out
    assert [" ".join(line.split()) for line in listed(folded)] == [
        "0 ResidualSequential × 12 (8, 8)",
        "1 Record r (8, 8)",
        "│ 2 Linear 8→8 (8, 8) 72 1.02 k",
        "3 Apply add ← r (8, 8)",
    ]
    assert "× N: this row and what stands below it come N times; their figures are of one\n" in folded
    assert "  r 1→3 × 12  add" in folded
    assert "864 parameters, 12,288 FLOPs, 12 skips holding up to 256 B\n" in folded
    assert len(listed(rescli("show", "repeats.py:deep", "--no-fold").out)) == 48


def test_a_group_of_layers_is_folded_below_a_heading(rescli: RunRescli, tmp_path: Path) -> None:
    (tmp_path / "repeats.py").write_text(REPEATS)
    text = rescli("show", "repeats.py:flat").out
    assert " ▾     (Linear, ReLU) × 6\n ○  1    Linear 4→4" in text


def test_a_depth_sums_up_what_lies_deeper(rescli: RunRescli, tmp_path: Path) -> None:
    (tmp_path / "repeats.py").write_text(REPEATS)
    text = rescli("show", "repeats.py:deep", "--depth", "1", "--no-fold").out
    rows = listed(text)
    assert len(rows) == 12
    assert re.split(r"\s{2,}", rows[1]) == [
        "4",
        "ResidualSequential (3 rows, 1 skip inside)",
        "(8, 8)",
        "72",
        "1.02 k",
    ]
    assert "12 of the skips lie inside rows with deeper levels summed up: not listed\n" in text
    folded = rescli("show", "repeats.py:deep", "--depth", "1").out
    assert "ResidualSequential × 12 (3 rows, 1 skip inside)" in folded


def test_json_has_every_row_whatever_text_would_have(rescli: RunRescli, tmp_path: Path) -> None:
    (tmp_path / "repeats.py").write_text(REPEATS)
    shortened = rescli("show", "repeats.py", "--format", "json", "--depth", "1", "--fold")
    assert shortened.code == 0
    assert shortened.out == rescli("show", "repeats.py", "--format", "json").out
    assert [len(block["layers"]) for block in json.loads(shortened.out)["blocks"]] == [48, 13]
    assert shortened.err == "Note: --depth shortens text alone; json has every level.\n"
    assert rescli("show", "basic", "--format", "json", "--depth", "1", "--quiet").err == ""


@pytest.mark.parametrize("depth", ["0", "-1", "x"])
def test_a_depth_is_a_number_from_one_on(depth: str, rescli: RunRescli) -> None:
    ended = rescli("show", "basic", "--depth", depth)
    assert (ended.code, ended.out) == (2, "")
    assert "--depth" in ended.err


def test_names_are_shown_and_never_obeyed(rescli: RunRescli, tmp_path: Path) -> None:
    (tmp_path / "names.py").write_text(
        'name = "a\\x1b[2J\\nb"\n'
        "layers = (Record(name=name), nn.Linear(4, 4), Apply(record_name=name), Record(name='c\\x07'))\n"
        "block = ResidualSequential(*layers)\n"
    )
    for command in ("show", "lint"):
        text = rescli(command, "names.py").out
        assert not {"\x1b", "\x07"} & set(text)
        assert r"c\x07" in text
    assert r"Apply add ← a\x1b[2J\nb" in rescli("show", "names.py").out


def test_layers_is_for_text_alone(rescli: RunRescli) -> None:
    ended = rescli("show", "projection", "--layers", "--format", "json")
    assert (ended.code, ended.out) == (2, "")
    assert "--layers adds a table to text, and json was asked for" in ended.err


def test_a_target_is_needed(rescli: RunRescli) -> None:
    ended = rescli("show")
    assert ended.code == 2
    assert "missing argument 'TARGET'" in ended.err


@pytest.mark.parametrize("sink", ["pipe", "file"])
def test_narrow_ascii_streams_lose_nothing(sink: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "40"}
    command = [sys.executable, "-m", "rescli", "show", "encoder"]
    path = tmp_path / "out.txt"
    with path.open("wb") as file:
        ended = subprocess.run(
            command,
            stdout=file if sink == "file" else subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            check=False,
        )
    text = (path.read_bytes() if sink == "file" else ended.stdout).decode("ascii")
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert "\\u" not in text
    for word in ("(4, 128, 100)", "24,704", "64->128", "concat", "inserted", "apply_long", "90,816"):
        assert word in text
