from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from rescli.graph import trace as trace_module
from rescli.graph.model import InsertedFact, WeightFact
from rescli.graph.trace import trace, trace_with_error
from rescli.spec.prepare import Request, prepare
from rescli.spec.shape import parse_input
from rescli.spec.target import shipped_specs
from tests.rescli.graph import blocks
from tests.rescli.graph.blocks import Case, Layer, edges_drawn
from torchresidual import Apply, LearnableAlpha, Record, RecurrentWrapper, ResidualSequential

if TYPE_CHECKING:
    from collections.abc import Callable

    from rescli.graph.copies import Device
    from rescli.graph.model import BlockGraph
    from torchresidual.apply import Coefficient


def look(module: nn.Module, *inputs: Tensor, device: Device | None = None) -> BlockGraph:
    return trace(module, inputs, name="block", target="spec.py:block", origin="spec", device=device)


def rows(graph: BlockGraph) -> list[tuple[str, str, str]]:
    return [(row.path, row.kind, row.output) for row in graph.layers]


# Parameters and FLOPs at two for a multiply-add, and the skips as rows of Record and Apply: worked out by hand.
KNOWN: dict[str, tuple[Callable[[], Case], int, int, list[tuple[int, int]]]] = {
    "a plain skip": (blocks.plain_skip, 4_288, 65_536, [(0, 4)]),
    "a projection": (blocks.projected, 4_160, 65_536, [(0, 2)]),
    "a highway": (blocks.highway, 816, 6_144, [(0, 2)]),
    "a gate that learns": (blocks.gated, 273, 2_048, [(0, 2)]),
    "an LSTM": (blocks.recurrent, 6_944, 532_480, [(0, 3)]),
    "crossing skips": (blocks.crossing, 6_400, 98_304, [(0, 5), (3, 8)]),
    "a block in a block": (blocks.nested, 544, 4_096, [(2, 4), (0, 6)]),
    "self-attention": (blocks.attention, 40_400, 480_000_000, [(0, 2)]),
    "a bare LSTM": (blocks.bare_lstm, 2_560, 72_000, []),
    "a block of ResNet": (blocks.basic_block, 230_144, 359_661_568, [(0, 6)]),
}


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("name", KNOWN)
def test_parameters_flops_and_skips_are_exact(name: str, device: Device) -> None:
    make, parameters, flops, edges = KNOWN[name]
    module, inputs = make()
    graph = look(module, *inputs, device=device)
    assert (graph.parameters, graph.flops, graph.macs) == (parameters, flops, flops // 2)
    assert edges_drawn(graph) == edges
    assert graph.uncounted == ()
    assert sum(row.parameters for row in graph.layers) == parameters
    assert sum(row.flops or 0 for row in graph.layers) == flops
    assert [row.index for row in graph.layers] == list(range(len(graph.layers)))


@pytest.mark.parametrize("target", [spec.name for spec in shipped_specs()])
def test_a_run_without_data_gives_the_same_graph(target: str) -> None:
    is_of_pictures = any(each.dim() == 4 for block in prepare(target, Request()) for each in block.inputs)
    # Small ones: the same layers run, in a tenth of the time.
    inputs = (parse_input("1x3x32x32"),) if is_of_pictures else ()
    for block in prepare(target, Request(inputs=inputs)):
        real, empty = (look(block.module, *block.inputs, device=device) for device in ("cpu", "meta"))
        assert real == empty
        assert real.failure is None
        own_parameters = sum(parameter.numel() for parameter in block.module.parameters())
        assert real.parameters == own_parameters == sum(row.parameters for row in real.layers)


def test_resnet18_is_the_published_one() -> None:
    (block,) = prepare("resnet18", Request())
    graph = look(block.module, *block.inputs)
    assert (graph.parameters, graph.flops, len(graph.edges)) == (11_689_512, 3_628_146_688, 8)
    shortcuts = [edge.projection for edge in graph.edges if edge.projection]
    assert sum(shortcut.parameters for shortcut in shortcuts) == 173_824
    assert {shortcut.origin for shortcut in shortcuts} == {"given"}


def test_a_large_block_takes_no_memory() -> None:
    with torch.device("meta"):
        deep = ResidualSequential(
            *(ResidualSequential(Record(), nn.Linear(8192, 8192), Apply()) for _ in range(48))
        )
        x = torch.empty(4, 8192)
    graph = look(deep, x)
    assert (graph.parameters, graph.flops, len(graph.edges)) == (3_221_618_688, 25_769_803_776, 48)


def test_inputs_and_outputs_are_told_with_type_and_origin() -> None:
    module, inputs = blocks.recurrent()
    graph = trace(module, inputs, name="block", target="a.py:block", origin="inferred")
    assert [(each.shape, each.dtype, each.origin) for each in graph.inputs] == [
        ((4, 10, 16), "float32", "inferred")
    ]
    assert [(each.shape, each.dtype) for each in graph.outputs] == [((4, 10, 32), "float32")]
    assert (graph.name, graph.target, graph.type) == ("block", "a.py:block", "ResidualSequential")


def test_the_skip_says_what_it_joins_and_what_it_holds() -> None:
    module, inputs = blocks.projected()
    (edge,) = look(module, *inputs).edges
    assert (edge.record, edge.record_path, edge.apply_path, edge.operation) == ("r", "0", "2", "add")
    assert (edge.recorded_shape, edge.current_shape) == ((8, 64), (8, 32))
    assert (edge.span, edge.bytes_held) == (1, 8 * 64 * 4)
    assert edge.alpha == edge.scale == WeightFact(1.0, learnable=False, min=None, max=None, space=None)
    assert edge.projection == InsertedFact(
        "2.projection_layer", "Linear", "64 -> 32", 2_080, 32_768, "inserted", "construction", "known"
    )
    assert edge.gates is None


def test_the_two_gates_of_a_highway_are_told_one_by_one() -> None:
    module, inputs = blocks.highway()
    (edge,) = look(module, *inputs).edges
    assert edge.alpha is None
    assert edge.gates is not None
    assert (edge.gates.path, edge.gates.parameters, edge.gates.flops) == ("2.gate_layer", 544, 4_096)
    parts = [(part.path, part.detail, part.parameters) for part in edge.gates.parts]
    assert parts == [
        ("2.gate_layer.transform_gate", "16 -> 16", 272),
        ("2.gate_layer.carry_gate", "16 -> 16", 272),
    ]


def test_skips_whose_ends_fit_have_no_projection_and_lie_in_their_own_levels() -> None:
    module, inputs = blocks.crossing()
    assert [(edge.record, edge.projection, edge.gates) for edge in look(module, *inputs).edges] == [
        ("input", None, None),
        ("mid", None, None),
    ]
    module, inputs = blocks.nested()
    assert [(edge.record_path, edge.apply_path) for edge in look(module, *inputs).edges] == [
        ("1.0", "1.2"),
        ("0", "3"),
    ]


def test_a_shortcut_of_the_users_own_is_told_as_given() -> None:
    module, inputs = blocks.basic_block()
    (edge,) = look(module, *inputs).edges
    assert edge.projection is not None
    assert (edge.projection.origin, edge.projection.parameters) == ("given", 64 * 128 + 256)
    assert edge.projection.detail == "Conv2d 64 -> 128 k1 s2 + BatchNorm2d 128"
    assert edge.projection.flops == 2 * 28 * 28 * 64 * 128


def test_concat_says_along_which_dimension_it_joined() -> None:
    block = ResidualSequential(Record(), nn.Conv1d(4, 6, 3, padding=1), Apply("concat"))
    (edge,) = look(block, torch.zeros(2, 4, 9)).edges
    assert (edge.operation, edge.dim, edge.alpha) == ("concat", 1, None)
    module, inputs = blocks.plain_skip()
    assert look(module, *inputs).edges[0].dim is None


@pytest.mark.parametrize(
    ("alpha", "fact"),
    [
        (0.25, WeightFact(0.25, learnable=False, min=None, max=None, space=None)),
        (LearnableAlpha(0.5), WeightFact(0.5, True, 0.0, 1.0, "linear", saturation=0.0)),
        (LearnableAlpha(0.3, 0.1, 0.9), WeightFact(0.3, True, 0.1, 0.9, "linear", saturation=0.5)),
        (LearnableAlpha(0.01, 1e-4, 1.0), WeightFact(0.01, True, 1e-4, 1.0, "log", saturation=0.0)),
        (nn.Parameter(torch.zeros(1)), WeightFact(0.0, True, None, None, None, (1,))),
        (torch.tensor([1.0, 2.0]), WeightFact(None, False, None, None, None, (2,))),
    ],
)
def test_alpha_and_scale_are_told_with_their_bounds(alpha: Coefficient, fact: WeightFact) -> None:
    block = ResidualSequential(Record(), nn.Linear(2, 2), Apply(alpha=alpha, scale=alpha))
    for device in ("cpu", "meta"):
        (edge,) = look(block, torch.zeros(3, 2), device=device).edges
        assert edge.alpha == edge.scale == fact


def test_a_learned_scale_shared_by_two_applies_is_counted_at_the_first() -> None:
    scale = nn.Parameter(torch.zeros(1))
    block = ResidualSequential(
        Record(), nn.Linear(4, 4), Apply(scale=scale), Record(), nn.Linear(4, 4), Apply(scale=scale)
    )
    graph = look(block, torch.zeros(2, 4))
    assert [row.parameters for row in graph.layers] == [0, 20, 1, 0, 20, 0]
    assert graph.parameters == 41


def test_several_applies_read_one_record() -> None:
    block = ResidualSequential(
        Record(name="r"), nn.Linear(4, 4), Apply(record_name="r"), nn.ReLU(), Apply(record_name="r")
    )
    assert edges_drawn(look(block, torch.zeros(2, 4))) == [(0, 2), (0, 4)]


def test_an_apply_reads_the_latest_record_of_its_name() -> None:
    block = ResidualSequential(
        Record(name="r"),
        nn.Linear(4, 4),
        Apply(record_name="r"),
        Record(name="r"),
        nn.Linear(4, 4),
        Apply(record_name="r"),
    )
    graph = look(block, torch.zeros(2, 4))
    assert edges_drawn(graph) == [(0, 2), (3, 5)]
    assert graph.diagnostics == ()


def test_an_inner_apply_reads_a_record_of_the_block_around_it() -> None:
    inner = ResidualSequential(
        Record(name="b"), nn.Linear(4, 4), Apply(record_name="a"), Apply(record_name="b")
    )
    graph = look(ResidualSequential(Record(name="a"), inner), torch.zeros(2, 4))
    assert [(edge.record, edge.record_path, edge.apply_path) for edge in graph.edges] == [
        ("a", "0", "1.2"),
        ("b", "1.0", "1.3"),
    ]


def test_a_record_inside_a_plain_sequential_is_seen() -> None:
    block = ResidualSequential(nn.Sequential(Record(name="r"), nn.Linear(4, 4)), Apply(record_name="r"))
    graph = look(block, torch.zeros(2, 4))
    assert rows(graph)[0] == ("0", "block", "(2, 4)")
    assert [(edge.record_path, edge.apply_path) for edge in graph.edges] == [("0.0", "1")]


def test_a_layer_placed_twice_is_two_rows_and_counted_once() -> None:
    activation, linear = nn.ReLU(), nn.Linear(4, 4)
    block = ResidualSequential(Record(), linear, activation, linear, activation, Apply())
    graph = look(block, torch.zeros(2, 4))
    assert [(row.path, row.reused, row.parameters, row.flops) for row in graph.layers] == [
        ("0", False, 0, 0),
        ("1", False, 20, 64),
        ("2", False, 0, 0),
        ("3", True, 0, 64),
        ("4", True, 0, 0),
        ("5", False, 0, 0),
    ]
    assert (graph.parameters, graph.flops) == (20, 128)


def test_a_block_placed_twice_has_each_skip_twice_with_paths_of_its_own() -> None:
    inner = ResidualSequential(Record(name="r"), nn.Linear(4, 4), Apply(record_name="r"))
    graph = look(ResidualSequential(inner, inner), torch.zeros(2, 4))
    assert [row.path for row in graph.layers] == ["0", "0.0", "0.1", "0.2", "1", "1.0", "1.1", "1.2"]
    assert [(edge.record_path, edge.apply_path) for edge in graph.edges] == [("0.0", "0.2"), ("1.0", "1.2")]


@dataclass
class Outputs:
    """What a model of many a library gives."""

    logits: Tensor
    more: list[Tensor]


def test_the_tensors_of_an_object_are_the_outputs_of_the_block() -> None:
    graph = look(
        nn.Sequential(nn.Linear(8, 4), Layer(lambda x, _w: Outputs(x, [x.sum()]))), torch.zeros(2, 8)
    )
    assert [each.shape for each in graph.outputs] == [(2, 4), ()]


class Tower(nn.Module):
    """Layers in a list, run twice; a parameter of its own; a layer that never runs."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8)])
        self.head = nn.Linear(8, 3)
        self.scale = nn.Parameter(torch.ones(8))
        self.unused = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(2):
            for layer in self.layers:
                x = layer(x)
        out: Tensor = self.head(x * self.scale) @ torch.ones(3, 3)
        return out


def test_a_module_of_the_users_own_is_a_row_with_what_no_child_accounts_for() -> None:
    graph = look(Tower(), torch.zeros(4, 8))
    assert [(row.path, row.depth, row.parameters, row.flops, row.reused) for row in graph.layers] == [
        ("", 0, 8 + 6, 2 * 4 * 3 * 3, False),
        ("layers.0", 1, 72, 512, False),
        ("layers.1", 1, 72, 512, False),
        ("layers.0", 1, 0, 512, True),
        ("layers.1", 1, 0, 512, True),
        ("head", 1, 27, 192, False),
    ]
    assert graph.parameters == 185


def test_parameters_that_torch_reads_without_calling_their_module_belong_to_the_layer() -> None:
    graph = look(nn.MultiheadAttention(8, 2), *[torch.zeros(3, 1, 8)] * 3)
    assert [(row.type, row.kind, row.parameters) for row in graph.layers] == [
        ("MultiheadAttention", "layer", 288)
    ]


def test_tied_weights_are_counted_once() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(10, 8)
            self.head = nn.Linear(8, 10, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, index: Tensor) -> Tensor:
            out: Tensor = self.head(self.embedding(index))
            return out

    graph = look(Tied(), torch.zeros(2, 3, dtype=torch.int64))
    assert graph.parameters == 80
    assert [row.parameters for row in graph.layers] == [80, 0]


def test_parametrized_layers_keep_their_name_and_one_row() -> None:
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
    graph = look(nn.Sequential(layer), torch.zeros(2, 4))
    assert [(row.type, row.detail, row.parameters) for row in graph.layers] == [("Linear", "4 -> 4", 24)]


@pytest.mark.parametrize(
    ("function", "output", "shape"),
    [
        (lambda _x, _w: None, "None", None),
        (lambda x, _w: ((x, [x, None]), {"k": x}), "[[(2, 8), [(2, 8), None]], {k: (2, 8)}]", (2, 8)),
        (lambda _x, _w: "text", "str", None),
        (lambda _x, _w: [], "[]", None),
        (lambda x, _w: x.sum(), "()", ()),
        (lambda _x, _w: 3.5, "3.5", None),
        (lambda _x, _w: object(), "object", None),
        (lambda x, _w: Outputs(x, [x.sum()]), "Outputs(logits: (2, 8), more: [()])", (2, 8)),
        (lambda x, _w: {"logits": x, "cache": None}, "{logits: (2, 8), cache: None}", (2, 8)),
    ],
)
def test_outputs_that_are_no_tensor_are_shown_as_they_are(
    function: Callable[[Tensor, Tensor], object], output: str, shape: tuple[int, ...] | None
) -> None:
    graph = look(Layer(function), torch.zeros(2, 8))
    assert [(row.output, row.output_shape) for row in graph.layers] == [(output, shape)]
    assert graph.failure is None


def test_a_packed_sequence_passes() -> None:
    class Packs(nn.Module):
        def forward(self, x: Tensor) -> object:
            return pack_padded_sequence(x, torch.tensor([3, 2]), batch_first=True)

    lstm = RecurrentWrapper(nn.LSTM(4, 4, batch_first=True))
    block = nn.Sequential(Packs(), ResidualSequential(Record(), lstm, Apply()))
    graph = look(block, torch.zeros(2, 3, 4))
    assert graph.failure is None
    assert graph.layers[0].output == "packed (5, 4)"
    assert [edge.recorded_shape for edge in graph.edges] == [(5, 4)]
    assert graph.flops == 2 * 5 * (16 * 4 + 16 * 4)


def test_the_type_of_each_step_is_told() -> None:
    block = ResidualSequential(Record(), nn.Linear(8, 8), Layer(lambda x, _w: x.bfloat16()), Apply())
    assert [row.dtype for row in look(block, torch.zeros(2, 8)).layers] == [
        "float32",
        "float32",
        "bfloat16",
        "float32",
    ]


def test_the_order_in_memory_of_each_step_is_told() -> None:
    block = nn.Sequential(nn.Conv2d(8, 8, 3), nn.ReLU(), Layer(lambda x, _w: x.contiguous()), nn.Flatten())
    x = torch.zeros(2, 8, 6, 6)
    for device in ("cpu", "meta"):
        plain = look(block, x, device=device)
        assert [row.memory_format for row in plain.layers] == ["contiguous"] * 4
    block = block.to(memory_format=torch.channels_last)  # type: ignore[call-overload] # torch's stubs lack it
    x = x.to(memory_format=torch.channels_last)
    last = look(block, x, device="cpu")
    assert [row.memory_format for row in last.layers] == ["channels_last"] * 2 + ["contiguous"] * 2
    # torch lays out the convolutions of a run without data in another order: better say nothing.
    assert [row.memory_format for row in look(block, x, device="meta").layers] == [None] * 4


def test_what_is_not_counted_is_named() -> None:
    block = ResidualSequential(nn.Linear(8, 8), Layer(lambda x, _w: torch.fft.rfft(x).real))
    graph = look(block, torch.zeros(2, 8))
    assert graph.uncounted == ("1",)
    assert graph.flops == 2 * 2 * 8 * 8
    assert [row.flops for row in graph.layers] == [256, None]


class Hidden(nn.Module):
    """Multiplies where nothing that watches torch functions can see it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8, 8))

    def forward(self, x: Tensor) -> Tensor:
        with torch._C.DisableTorchFunction():
            return x.mm(self.weight)


def test_a_hole_is_charged_to_the_module_that_made_it_and_not_to_the_next() -> None:
    assert look(nn.Sequential(Hidden(), nn.Linear(8, 8)), torch.zeros(2, 8)).uncounted == ("0",)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_torchscript_is_one_row_that_is_not_counted() -> None:
    scripted = torch.jit.script(nn.Sequential(nn.Linear(8, 8), nn.ReLU()))
    graph = look(nn.Sequential(nn.Linear(8, 8), scripted), torch.zeros(2, 8))
    assert [(row.path, row.parameters) for row in graph.layers] == [("0", 72), ("1", 72)]
    assert graph.uncounted == ("1",)
    assert graph.trainable_parameters == 144


def test_sizes_that_only_a_run_can_tell_are_settled_in_the_copy_alone() -> None:
    block = ResidualSequential(Record(True), Layer(lambda x, _w: x[:, :4]), Apply())
    for device in ("cpu", "meta"):
        graph = look(block, torch.zeros(2, 8), device=device)
        (edge,) = graph.edges
        assert edge.projection is not None
        assert (edge.projection.detail, edge.projection.parameters) == ("8 -> 4", 36)
        assert graph.uncounted == ()
        assert graph.parameters == 100
    lazy = [p for p in block.parameters() if isinstance(p, nn.UninitializedParameter)]
    assert len(lazy) == 2


def test_frozen_parameters_are_not_trainable() -> None:
    block = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    block[0].requires_grad_(requires_grad=False)
    graph = look(block, torch.zeros(2, 4))
    assert (graph.parameters, graph.trainable_parameters, graph.buffers) == (28, 8, 9)


class Restless(nn.Module):
    """Everything that a run could leave behind."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.5)
        self.linear = nn.Linear(4, 4)
        self.seen: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(x)
        noise = torch.randn(4) + random.random() + np.random.rand()  # noqa: NPY002 - the global ones
        out: Tensor = self.drop(self.linear(self.norm(x.add_(1)))) + noise
        return out


def left_behind(run: Callable[[nn.Module, Tensor], object]) -> set[str]:
    """Run a restless block in some way, and name everything that is not as it was."""
    block, x = Restless().train(), torch.zeros(3, 4)
    block.linear.eval()
    block.linear.weight.grad = torch.ones(4, 4)

    def look_around() -> dict[str, object]:
        grad = block.linear.weight.grad
        return {
            "state": [(name, value.tolist()) for name, value in block.state_dict().items()],
            "modes": [part.training for part in block.modules()],
            "hooks": [len(part._forward_hooks) + len(part._forward_pre_hooks) for part in block.modules()],
            "gradient": None if grad is None else grad.tolist(),
            "attributes": len(block.seen),
            "input": x.tolist(),
            "rng of torch": torch.get_rng_state().tolist(),
            "rng of Python": random.getstate(),
            "rng of NumPy": str(np.random.get_state()),  # noqa: NPY002 - the global one
            "grad mode": torch.is_grad_enabled(),
        }

    before = look_around()
    run(block, x)
    after = look_around()
    return {name for name in before if before[name] != after[name]}


def test_the_block_and_the_world_are_as_they_were() -> None:
    for device in ("cpu", "meta"):
        assert left_behind(lambda block, x, device=device: look(block, x, device=device)) == set()  # type: ignore[misc]


def test_what_a_run_of_the_block_itself_leaves_behind_would_be_noticed() -> None:
    def careless(block: nn.Module, x: Tensor) -> None:
        block.zero_grad()
        block.register_forward_hook(lambda *_: None)
        block(x).sum()
        block.eval()

    assert left_behind(careless) == {
        "state",
        "modes",
        "hooks",
        "gradient",
        "attributes",
        "input",
        "rng of torch",
        "rng of Python",
        "rng of NumPy",
    }


def test_a_hook_of_the_users_own_still_does_its_part() -> None:
    block = nn.Sequential(nn.Linear(4, 4))
    block[0].register_forward_hook(lambda _module, _args, output: output[:, :2])
    graph = look(block, torch.zeros(3, 4))
    assert [row.output for row in graph.layers] == ["(3, 2)"]


def test_a_failing_layer_is_named_and_the_rows_before_it_are_there() -> None:
    block = ResidualSequential(nn.Linear(8, 4), nn.Sequential(nn.ReLU(), nn.Linear(8, 2)), nn.ReLU())
    traced = trace_with_error(block, (torch.zeros(3, 8),), name="block", target="a.py:block", origin="spec")
    graph = traced.graph
    assert isinstance(traced.error, RuntimeError)
    assert graph.failure is not None
    assert (graph.failure.path, graph.failure.type, graph.failure.input) == ("1.1", "Linear", "(3, 4)")
    assert graph.failure.reason == "mat1 and mat2 shapes cannot be multiplied (3x4 and 8x2)"
    assert [(row.path, row.failed, row.output) for row in graph.layers] == [
        ("0", False, "(3, 4)"),
        ("1", False, "raised RuntimeError"),
        ("1.0", False, "(3, 4)"),
        ("1.1", True, "raised RuntimeError"),
    ]
    assert graph.outputs == ()
    assert graph.uncounted == ("1.1",)
    assert [each.code for each in graph.diagnostics] == ["layer-failed"]


def test_the_layer_is_named_that_an_error_came_from_even_if_it_was_reworded() -> None:
    class Rewords(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(3, 3)

        def forward(self, x: Tensor) -> object:
            try:
                return self.inner(x)
            except RuntimeError as error:
                raise ValueError("no luck") from error

    graph = look(nn.Sequential(Rewords()), torch.zeros(2, 8))
    assert graph.failure is not None
    assert graph.failure.path == "0.inner"


def test_an_error_that_somebody_catches_is_no_failure() -> None:
    class Tries(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(3, 3), nn.Linear(8, 8)

        def forward(self, x: Tensor) -> object:
            try:
                return self.first(x)
            except RuntimeError:
                return self.second(x)

    graph = look(nn.Sequential(Tries()), torch.zeros(2, 8))
    assert graph.failure is None
    assert rows(graph) == [
        ("0", "block", "(2, 8)"),
        ("0.first", "layer", "raised RuntimeError"),
        ("0.second", "layer", "(2, 8)"),
    ]


def test_an_error_of_the_block_itself_has_no_path() -> None:
    graph = look(Layer(lambda x, _w: x.missing), torch.zeros(2, 8))  # type: ignore[attr-defined]
    assert graph.failure is not None
    assert (graph.failure.path, graph.failure.type) == ("", "Layer")
    assert graph.failure.reason == "AttributeError: 'Tensor' object has no attribute 'missing'"


def test_a_block_made_without_data_that_needs_it_is_made_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    def block() -> nn.Module:
        return nn.Sequential(nn.Linear(8, 8), Layer(lambda x, _w: x * x.sum().item()))

    def shown(*, limit: int) -> BlockGraph:
        monkeypatch.setattr(trace_module, "_MOST_REMADE_PARAMETERS", limit)
        return trace_module.trace(
            block().to("meta"),
            [torch.zeros(2, 8, device="meta")],
            name="block",
            target="-",
            origin="inferred",
            with_data=lambda: (block(), [torch.zeros(2, 8)]),
        )

    graph = shown(limit=1_000)
    assert graph.failure is None
    assert [each.code for each in graph.diagnostics] == ["needs-data"]
    assert rows(graph) == [("0", "layer", "(2, 8)"), ("1", "layer", "(2, 8)")]
    too_large = shown(limit=71)
    assert too_large.failure is not None
    assert too_large.failure.path == "1"


def test_a_large_block_that_needs_data_runs_on_the_cpu_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    block = nn.Sequential(nn.Linear(8, 8), Layer(lambda x, _w: x * x.sum().item()))
    monkeypatch.setattr(trace_module, "suitable_device", lambda *_: "meta")
    graph = look(block, torch.zeros(2, 8))
    assert graph.failure is None
    assert [(each.code, each.severity, each.path, each.message) for each in graph.diagnostics] == [
        (
            "needs-data",
            "note",
            "1",
            "the block is large, and Layer at '1' cannot run without data: it ran on the CPU",
        )
    ]
    monkeypatch.setattr(trace_module, "suitable_device", lambda *_: "cpu")
    assert look(block, torch.zeros(2, 8)).diagnostics == ()


def test_a_skip_says_what_it_leads_around_and_how_long_it_holds_its_tensor() -> None:
    block = ResidualSequential(
        Record(name="a"),
        nn.Linear(4, 4),
        Apply(record_name="a"),
        Record(name="b"),
        nn.Linear(4, 8),
        nn.Linear(8, 4),
        Apply(record_name="b"),
        Apply(record_name="a"),
    )
    graph = look(block, torch.zeros(2, 4))
    assert [(edge.span, edge.span_flops, edge.held_layers) for edge in graph.edges] == [
        (1, 2 * 2 * 4 * 4, 3),
        (2, 2 * 2 * 2 * 4 * 8, 2),
        (3, 2 * 2 * (4 * 4 + 2 * 4 * 8), 3),
    ]
    # a (32 bytes) and b together, while the layers of b run.
    assert graph.peak_bytes_held == 2 * 32


def test_what_a_projection_on_the_way_takes_belongs_to_the_span_of_the_outer_skip() -> None:
    inner = ResidualSequential(Record(True), nn.Linear(4, 8), Apply())
    graph = look(
        ResidualSequential(Record(name="a"), inner, nn.Linear(8, 4), Apply(record_name="a")),
        torch.zeros(2, 4),
    )
    assert [edge.span_flops for edge in graph.edges] == [128, 3 * 128]


def test_a_span_with_operations_that_are_not_counted_has_no_sum() -> None:
    block = ResidualSequential(
        Record(), nn.Linear(8, 8), Layer(lambda x, _w: torch.fft.rfft(x).real), nn.Linear(5, 8), Apply()
    )
    (edge,) = look(block, torch.zeros(2, 8)).edges
    assert (edge.span, edge.span_flops) == (3, None)


def test_two_records_of_one_tensor_hold_it_once() -> None:
    block = ResidualSequential(
        Record(name="a"), Record(name="b"), nn.Linear(4, 4), Apply(record_name="a"), Apply(record_name="b")
    )
    for device in ("cpu", "meta"):
        assert look(block, torch.zeros(2, 4), device=device).peak_bytes_held == 32


def test_a_projection_behind_a_layer_of_the_users_own_is_sized_in_the_first_run() -> None:
    block = ResidualSequential(Record(True), Layer(lambda x, w: x @ w[:, :5]), Apply())
    (edge,) = look(block, torch.zeros(2, 8)).edges
    assert edge.projection is not None
    assert (edge.projection.sized, edge.projection.layout) == ("first-run", "known")
    block.materialize(torch.zeros(2, 8))
    (edge,) = look(block, torch.zeros(2, 8)).edges
    assert edge.projection is not None
    assert edge.projection.sized == "construction"


def test_a_projection_whose_dimension_only_the_shapes_tell_is_guessed() -> None:
    def block(dim: int | None) -> nn.Module:
        return ResidualSequential(Record(True), Layer(lambda x, w: x @ w[:, :5]), Apply(dim=dim))

    for dim, layout in ((None, "guessed"), (-1, "known")):
        (edge,) = look(block(dim), torch.zeros(2, 3, 8)).edges
        assert edge.projection is not None
        assert (edge.projection.layout, edge.projection.origin) == (layout, "inserted")


def test_of_a_given_projection_nobody_asks_where_features_lie() -> None:
    module, inputs = blocks.basic_block()
    (edge,) = look(module, *inputs).edges
    assert edge.projection is not None
    assert (edge.projection.sized, edge.projection.layout) == ("construction", None)


def test_an_alpha_at_its_bound_is_told_as_saturated() -> None:
    block = ResidualSequential(Record(), nn.Linear(2, 2), Apply(alpha=LearnableAlpha(1.0)))
    (edge,) = look(block, torch.zeros(3, 2)).edges
    assert edge.alpha is not None
    assert edge.alpha.saturation is not None
    assert 0.99 < edge.alpha.saturation < 1
