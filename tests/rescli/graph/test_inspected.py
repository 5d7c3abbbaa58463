from __future__ import annotations

import copy
import io
import pickle
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import pytest
import torch
from rich.console import Console
from torch import nn

import rescli
from rescli.errors import CommandLineError, SpecError
from rescli.graph.model import BlockGraph
from rescli.graph.trace import trace
from tests.rescli.graph import blocks
from tests.rescli.graph.test_trace import left_behind
from torchresidual import Apply, Record, ResidualSequential

if TYPE_CHECKING:
    from collections.abc import Callable

PICTURE = """\
ResidualSequential  ResidualSequential
input   (8, 64) float32 as given
output  (8, 64) float32

      #  layer            output   params   FLOPs
 ●─╮  0  Record in        (8, 64)
 ○ │  1  Linear 64→64     (8, 64)   4,160  65.5 k
 ○ │  2  ReLU             (8, 64)
 ○ │  3  LayerNorm 64     (8, 64)     128
 ◆─╯  4  Apply add ← in   (8, 64)

4,288 parameters, 65,536 FLOPs, 1 skip holding 2.00 KiB

Skips (span and FLOPs of the layers between; memory held, for so many layers)
  skip    op   alpha  shape    span   FLOPs      held  for
  in 0→4  add  1      (8, 64)     3  65.5 k  2.00 KiB    3"""


@pytest.fixture(autouse=True)
def _usual_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def squeezed(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_the_graph_is_that_of_show() -> None:
    module, (x,) = blocks.plain_skip()
    graph = rescli.inspect(module, x)
    assert isinstance(graph, BlockGraph)
    expected = trace(module, (x,), name="ResidualSequential", target="", origin="option")
    assert asdict(graph) == asdict(expected)
    assert [(edge.record_index, edge.apply_index) for edge in graph.edges] == [(0, 4)]


@pytest.mark.parametrize("show", [repr, str, lambda graph: graph.text()])
def test_it_shows_itself_as_the_picture(show: Callable[[object], str]) -> None:
    module, (x,) = blocks.plain_skip()
    assert squeezed(show(rescli.inspect(module, x))) == squeezed(PICTURE)


def test_the_picture_is_ascii_where_nothing_else_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    module, (x,) = blocks.plain_skip()
    graph = rescli.inspect(module, x)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert repr(graph).isascii()
    assert "*-." in repr(graph)


def test_the_picture_takes_the_width_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    module, inputs = blocks.basic_block()
    graph = rescli.inspect(module, inputs)
    widths = {}
    for columns in (60, 160):
        monkeypatch.setenv("COLUMNS", str(columns))
        widths[columns] = max(map(len, repr(graph).splitlines()))
    assert widths[60] <= 60 < widths[160] <= 160


def test_depth_and_fold_are_those_of_show() -> None:
    layers = [ResidualSequential(Record(), nn.Linear(4, 4), Apply()) for _ in range(12)]
    graph = rescli.inspect(nn.Sequential(*layers), torch.zeros(2, 4))
    assert "ResidualSequential × 12" in graph.text()
    assert "×" not in graph.text(fold=False)
    assert "ResidualSequential × 12 (3 rows, 1 skip inside)" in graph.text(depth=1)


@pytest.mark.parametrize("color", ["truecolor", None])
def test_a_console_of_rich_prints_it_in_its_width_and_colours(color: str | None) -> None:
    module, (x,) = blocks.plain_skip()
    graph = rescli.inspect(module, x)
    stream = io.StringIO()
    system = "truecolor" if color else None
    console = Console(file=stream, width=80, color_system=system, force_terminal=bool(color))  # type: ignore[arg-type] # a literal
    console.print(graph)
    printed = stream.getvalue()
    assert ("\x1b[" in printed) is bool(color)
    plain = "".join(
        piece.partition("m")[2] if place else piece for place, piece in enumerate(printed.split("\x1b["))
    )
    assert squeezed(plain) == squeezed(PICTURE)


def test_rich_cuts_nothing_where_it_is_narrow() -> None:
    module, inputs = blocks.basic_block()
    stream = io.StringIO()
    Console(file=stream, width=30).print(rescli.inspect(module, inputs))
    text = " ".join(stream.getvalue().split())
    assert "Conv2d 64→128 k1 s2 + BatchNorm2d 128" in text
    assert "…" not in text


def test_the_input_may_be_worked_out_given_or_several() -> None:
    graph = rescli.inspect(nn.Linear(4, 2))
    assert [(each.shape, each.origin) for each in graph.inputs] == [((8, 4), "inferred")]
    assert "worked out from the layers" in repr(graph)
    both = rescli.inspect(nn.Bilinear(2, 3, 4), (torch.zeros(5, 2), torch.zeros(5, 3)))
    assert [each.shape for each in both.inputs] == [(5, 2), (5, 3)]
    nested = rescli.inspect(
        nn.LSTM(4, 4), (torch.zeros(3, 2, 4), (torch.zeros(1, 2, 4), torch.zeros(1, 2, 4)))
    )
    assert nested.failure is None


def test_the_module_and_the_world_are_as_they_were() -> None:
    assert left_behind(rescli.inspect) == set()


def test_a_module_that_raises_is_shown_up_to_where_it_does() -> None:
    graph = rescli.inspect(nn.Sequential(nn.Linear(4, 3), nn.Linear(4, 3)), torch.zeros(2, 4))
    assert graph.failure is not None
    assert graph.failure.path == "1"
    assert "error at '1' (layer-failed)" in repr(graph)


@pytest.mark.parametrize(
    ("module", "example", "message"),
    [
        (nn.Linear(4, 2), (8, 4), "example_input is (8, 4)"),
        (nn.Linear(4, 2), "8x4", "example_input is '8x4'"),
        (nn.Linear(4, 2), (), "example_input is ()"),
        (torch.relu, None, "rescli.inspect looks at an nn.Module, found builtin_function_or_method"),
        (nn.Linear, None, "rescli.inspect looks at an nn.Module, found type"),
    ],
)
def test_what_is_no_module_or_input_is_refused(
    module: nn.Module, example: tuple[object], message: str
) -> None:
    with pytest.raises(CommandLineError) as caught:
        rescli.inspect(module, example)
    assert caught.value.message == message


def test_an_input_that_nothing_tells_must_be_given() -> None:
    with pytest.raises(SpecError, match="the input of ReLU cannot be worked out"):
        rescli.inspect(nn.ReLU())


def test_the_graph_can_be_kept_and_copied() -> None:
    module, (x,) = blocks.crossing()
    graph = rescli.inspect(module, x)
    assert pickle.loads(pickle.dumps(graph)) == copy.deepcopy(graph) == graph  # noqa: S301 - our own
