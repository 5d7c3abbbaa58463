"""The facts about one block, as a run found them.

    BlockGraph                  one block
    ├── InputFact, TensorFact   what went in and what came out
    ├── LayerFact               one execution of one module
    ├── EdgeFact                one skip: from a Record to an Apply
    │   ├── WeightFact          its alpha and its scale
    │   └── InsertedFact        its projection and its gates
    ├── Failure                 the layer at which the block stopped
    └── Diagnostic              what a reader should know
    LintedBlock                 the same of it alone

The names are those of the JSON document ``rescli.show/1``. Nothing here needs torch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Origin = Literal["option", "spec", "inferred"]
LayerKind = Literal["record", "apply", "layer", "block"]
Severity = Literal["error", "warning", "note"]
MemoryFormat = Literal["contiguous", "channels_last", "channels_last_3d", "strided"]
Shape = tuple[int, ...]
# The ``|tanh(raw)|`` of a LearnableAlpha from which on it counts as saturated.
SATURATED_FROM = 0.99


@dataclass(frozen=True, slots=True)
class TensorFact:
    """Shape and type of one tensor."""

    shape: Shape
    dtype: str


@dataclass(frozen=True, slots=True)
class InputFact:
    """One input of a block.

    Args:
        shape: Its sizes.
        dtype: Its type, as ``float32``.
        origin: Whether the shape was given as an option, stands in the spec, or was worked out from the layers.
    """

    shape: Shape
    dtype: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class LayerFact:
    """One execution of one module; a module that runs twice has two of these.

    Args:
        index: Its place in the order of execution, from 0.
        path: The position in the module tree, as ``1.0``; empty for the block itself.
        kind: ``record``, ``apply``, ``block`` (it ran other modules) or ``layer``.
        type: Name of the class.
        depth: How many modules stand around it: 1 for the children of the block.
        output_shape: Shape of the tensor it gave, of the first one if there were several, None without one.
        dtype: Type of that tensor.
        parameters: Elements of its own parameters that no earlier row counts. The rows sum to the block's total.
        flops: Floating point operations of its own, without its children's; None if they are not known.
        reused: Whether the same module has run before.
        detail: Its sizes in short, as ``64 -> 128 k3 s2``.
        output: The whole structure that came out, as ``[(4, 10, 32), None]``.
        record: For a record its name, for an apply the name of the record that it reads or asks for.
        failed: Whether it raised the error that ended the run.
        memory_format: In which order that tensor lies in memory; None if that is not known: without a tensor, and
            of blocks with channels last that ran without data.
    """

    index: int
    path: str
    kind: LayerKind
    type: str
    depth: int
    output_shape: Shape | None
    dtype: str | None
    parameters: int
    flops: int | None
    reused: bool
    detail: str
    output: str
    record: str | None = None
    failed: bool = False
    memory_format: MemoryFormat | None = None


@dataclass(frozen=True, slots=True)
class WeightFact:
    """The alpha or the scale of a skip.

    Args:
        value: The number, or None if it is a tensor of several different values or its values are not known.
        learnable: Whether training changes it.
        min: Lower bound of a LearnableAlpha, None for everything else.
        max: Upper bound of a LearnableAlpha, None for everything else.
        space: ``linear`` or ``log``, how a LearnableAlpha maps its parameter; None for everything else.
        shape: The shape of a tensor; None for a float or a LearnableAlpha.
        saturation: How far a LearnableAlpha has gone, ``|tanh(raw)|``: 0 in the middle of its range, 1 where
            no gradient is left. None for everything else, and if its value is not known.
    """

    value: float | None
    learnable: bool
    min: float | None
    max: float | None
    space: Literal["linear", "log"] | None
    shape: Shape | None = None
    saturation: float | None = None

    @property
    def is_saturated(self) -> bool:
        """Whether less than 2% of the largest gradient is left, so that it hardly learns."""
        return self.saturation is not None and self.saturation > SATURATED_FROM


@dataclass(frozen=True, slots=True)
class InsertedFact:
    """A module that an Apply carries: the projection of its skip, or its gates.

    Args:
        path: The position in the module tree.
        type: Name of the class.
        detail: Its sizes in short, as ``64 -> 128``.
        parameters: Elements of all its parameters.
        flops: Floating point operations of one run; None if they are not known.
        origin: ``inserted`` by the library, or ``given`` by the user.
        sized: When its sizes were settled: at ``construction``, or only in the ``first-run``.
        layout: Whether the layers around or ``dim=`` tell where features lie, ``known``, or the shapes of the run
            had to: ``guessed``. None for what the user gave.
        parts: The modules it consists of, for gates.
    """

    path: str
    type: str
    detail: str
    parameters: int
    flops: int | None
    origin: Literal["inserted", "given"]
    sized: Literal["construction", "first-run"]
    layout: Literal["known", "guessed"] | None
    parts: tuple[InsertedFact, ...] = ()


@dataclass(frozen=True, slots=True)
class EdgeFact:
    """One skip, from the execution of a Record to the execution of an Apply that read it.

    Args:
        record: Name of the record; None if it has none.
        record_path: The Record's position in the module tree.
        apply_path: The Apply's position in the module tree.
        operation: ``add``, ``concat``, ``multiply``, ``gated`` or ``highway``.
        alpha: What weighs the recorded tensor; None for concat and highway.
        scale: What weighs the current tensor.
        recorded_shape: Shape of the recorded tensor, before a projection.
        current_shape: Shape of the tensor that reached the Apply.
        span: How many leaf layers ran between the Record and the Apply.
        span_flops: Floating point operations of what ran between them; None if they are not all known.
        bytes_held: Memory of the recorded tensor, held from the Record to its last Apply.
        held_layers: How many leaf layers ran in that time: more than ``span`` if a later Apply reads it too.
        projection: What bridges the two sizes, if anything does.
        gates: What weighs the two sides of a highway.
        dim: The dimension along which concat joins, counted from 0; None for everything else.
        record_index: The row of the Record in ``layers``.
        apply_index: The row of the Apply in ``layers``.
    """

    record: str | None
    record_path: str
    apply_path: str
    operation: str
    alpha: WeightFact | None
    scale: WeightFact | None
    recorded_shape: Shape
    current_shape: Shape
    span: int
    span_flops: int | None
    bytes_held: int
    held_layers: int
    projection: InsertedFact | None
    gates: InsertedFact | None
    dim: int | None
    record_index: int
    apply_index: int


@dataclass(frozen=True, slots=True)
class Failure:
    """Where and why a block stopped.

    Args:
        path: The position of the innermost module that raised; empty for the block itself.
        type: Name of its class.
        input: What it was given, as ``(8, 64)``.
        reason: The error's own words.
        recorded_shape: For an Apply that had found its Record, the shape of the recorded tensor.
        current_shape: For an Apply, the shape of the tensor that reached it.
        error_type: Name of the error's class.
    """

    path: str
    type: str
    input: str
    reason: str
    recorded_shape: Shape | None = None
    current_shape: Shape | None = None
    error_type: str = ""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """Something a reader should know about the block.

    Args:
        code: Stable name of the kind, as ``unused-record``.
        severity: ``error``: the block cannot run; ``warning``: hardly what was meant; ``note``: worth knowing.
        path: The position of the module it is about; empty for the block itself.
        message: What was found.
        hint: What to change; may be empty.
    """

    code: str
    severity: Severity
    path: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class LintedBlock:
    """What there is to say about one block, and nothing else.

    Args:
        name: The variable or function that gave it.
        target: Where it comes from, as ``spec.py:name``.
        diagnostics: What is wrong or worth knowing, the gravest first.
    """

    name: str
    target: str
    diagnostics: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class BlockGraph:
    """Everything that ``show`` says about one block.

    Args:
        name: The variable or function that gave it.
        target: Where it comes from, as ``spec.py:name``; empty for a module that Python handed over.
        type: Name of its class.
        inputs: What it was run on.
        outputs: The tensors it gave, nested ones included; empty if it did not get that far.
        parameters: Elements of all parameters, each counted once.
        trainable_parameters: The part of them that requires a gradient.
        buffers: Elements of all buffers, each counted once.
        flops: Floating point operations of one forward pass, two for a multiply-add: the part that is counted.
        uncounted: Paths of the modules whose operations are not, or not all, in ``flops``.
        peak_bytes_held: Memory of the recorded tensors at the moment at which most of it is held at once.
        layers: The executions, in order.
        edges: The skips, in the order of their Applies.
        diagnostics: What is wrong or worth knowing.
        failure: Where the run stopped; None if it came through.
        macs: Multiply-adds, half of ``flops``.
    """

    name: str
    target: str
    type: str
    inputs: tuple[InputFact, ...]
    outputs: tuple[TensorFact, ...]
    parameters: int
    trainable_parameters: int
    buffers: int
    flops: int
    uncounted: tuple[str, ...]
    peak_bytes_held: int
    layers: tuple[LayerFact, ...]
    edges: tuple[EdgeFact, ...]
    diagnostics: tuple[Diagnostic, ...]
    failure: Failure | None = None
    macs: int = field(init=False)

    def __post_init__(self) -> None:
        # A frozen dataclass sets its derived field this way.
        object.__setattr__(self, "macs", self.flops // 2)
