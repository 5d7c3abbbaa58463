"""Every error names the place in the block, the record, the shapes, and what to type."""

from __future__ import annotations

import pickle
import re
import sys
from collections import OrderedDict
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn

from tests.torchresidual.toys import InOrder, Unknown
from torchresidual import (
    Apply,
    ConfigurationError,
    InPlaceError,
    LearnableAlpha,
    NestingError,
    OutsideBlockError,
    Record,
    RecurrentWrapper,
    ResidualError,
    ResidualSequential,
    ShapeError,
    StateError,
    StructureError,
    UnknownRecordError,
    UnsettledError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


def message_of(block: nn.Module, x: Tensor, *, hooked: bool = False) -> str:
    if hooked:
        for module in block.modules():
            module.register_forward_hook(lambda *_: None)
    with pytest.raises(ResidualError) as caught:
        block(x)
    return str(caught.value)


def assert_says(message: str, *parts: str) -> None:
    for part in parts:
        assert part in message, f"{part!r} is not in {message!r}"


@pytest.mark.parametrize("hooked", [False, True], ids=["", "hooked"])
class TestShapes:
    """Recorded and current tensor that do not fit."""

    def test_x_is_never_grown_by_broadcasting(self, hooked: bool) -> None:
        message = message_of(
            ResidualSequential(Record(), nn.Linear(8, 1), Apply()), torch.zeros(4, 8), hooked=hooked
        )
        assert_says(
            message,
            "Apply(operation='add', record_name=None, alpha=1.0) at '2'",
            "'record_1'",
            "x would be grown by broadcasting",
            "recorded (4, 8), current (4, 1)",
            "set need_projection=True in the Record",
        )

    @pytest.mark.parametrize("operation", ["add", "multiply", "gated", "highway"])
    def test_a_strided_convolution_without_projection_is_refused(self, operation: str, hooked: bool) -> None:
        block = ResidualSequential(Record(name="s"), nn.Conv2d(64, 128, 3, 2, 1), Apply(operation, "s"))
        message = message_of(block, torch.zeros(2, 64, 56, 56), hooked=hooked)
        assert_says(message, "at '2'", "'s'", "(2, 64, 56, 56)", "(2, 128, 28, 28)", "need_projection=True")

    def test_a_doubled_hidden_size_is_explained(self, hooked: bool) -> None:
        lstm = nn.LSTM(10, 10, bidirectional=True, batch_first=True)
        for layer in (lstm, RecurrentWrapper(lstm)):
            block = ResidualSequential(Record(), layer, nn.Dropout(0.1), Apply())
            message = message_of(block, torch.zeros(2, 5, 10), hooked=hooked)
            assert_says(message, "(2, 5, 10)", "(2, 5, 20)", "need_projection=True")
            assert_says(message, "2 x 10 = 20 features", "hidden_size=5 it gives 10")

    def test_more_dimensions_do_not_grow_x(self, hooked: bool) -> None:
        class Drops(nn.Module):
            def forward(self, x: Tensor) -> Tensor:
                return x[0]

        message = message_of(ResidualSequential(Record(), Drops(), Apply()), torch.zeros(1, 4), hooked=hooked)
        assert_says(message, "x would be grown by broadcasting", "recorded (1, 4), current (4,)")

    def test_concat_says_which_input_would_fit(self, hooked: bool) -> None:
        block = ResidualSequential(
            Record(name="skip"),
            nn.Conv2d(3, 6, 3, 2, 1),
            nn.ConvTranspose2d(6, 3, 2, 2),
            nn.Conv2d(3, 3, 2),
            Apply("concat", "skip"),
        )
        message = message_of(block, torch.zeros(2, 3, 16, 16), hooked=hooked)
        assert_says(
            message,
            "at '4'",
            "'skip'",
            "current (2, 3, 15, 15) with recorded (2, 3, 16, 16)",
            "along dimension 1: all other sizes must agree",
            "16 came back as 15: sizes at the Record must be a multiple of the stride in between",
        )

    @pytest.mark.parametrize("operation", ["concat", "highway"])
    def test_a_dimension_that_is_not_there_is_said(self, operation: str, hooked: bool) -> None:
        block = ResidualSequential(Record(name="r"), nn.Linear(3, 3), Apply(operation, "r", dim=5))
        message = message_of(block, torch.zeros(2, 3), hooked=hooked)
        assert_says(message, "at '2'", "'r'", "dimension 5", "recorded (2, 3), current (2, 3)", "dim=")
        scalar = ResidualSequential(Record(name="r"), nn.Tanh(), Apply(operation, "r"))
        assert_says(
            message_of(scalar, torch.tensor(1.0), hooked=hooked), "at '2'", "dimension -1", "current ()"
        )

    def test_alpha_and_scale_must_broadcast_to_x(self, hooked: bool) -> None:
        for name in ("alpha", "scale"):
            apply = Apply("add", "r", **{name: torch.ones(2, 4)})  # type: ignore[arg-type]  # one of the two
            message = message_of(ResidualSequential(Record(name="r"), apply), torch.zeros(4), hooked=hooked)
            assert_says(message, "at '1'", f"{name} of shape (2, 4) does not broadcast to x (4,)")

    def test_what_is_no_tensor_is_named(self, hooked: bool) -> None:
        class Texts(nn.Module):
            def forward(self, _: Tensor) -> str:
                return "text"

        message = message_of(
            ResidualSequential(Record(name="r"), Texts(), Apply()), torch.zeros(4), hooked=hooked
        )
        assert_says(message, "at '2'", "found Tensor at the Record and str here")


@pytest.mark.parametrize("hooked", [False, True], ids=["", "hooked"])
class TestPaths:
    """The place of an error, from the outermost block on."""

    @pytest.mark.parametrize(
        ("block", "path"),
        [
            (lambda bad: ResidualSequential(Record(), bad), "1"),
            (lambda bad: ResidualSequential(Record(), nn.Sequential(nn.Identity(), bad)), "1.1"),
            (lambda bad: ResidualSequential(Record(), nn.Sequential(nn.Sequential(bad))), "1.0.0"),
            (lambda bad: ResidualSequential(Record(), ResidualSequential(nn.Identity(), bad)), "1.1"),
            (lambda bad: ResidualSequential(Record(), InOrder(nn.Identity(), bad)), "1.layers.1"),
            (lambda bad: ResidualSequential(Record(), InOrder(ResidualSequential(bad))), "1.layers.0.0"),
            (lambda bad: ResidualSequential(nn.Sequential(ResidualSequential(Record(), bad))), "0.0.1"),
            (
                lambda bad: ResidualSequential(Record(), Unknown(nn.Sequential(ResidualSequential(bad)))),
                "1.inner.0.0",
            ),
        ],
    )
    def test_an_apply_without_its_record_is_found(self, block: object, path: str, hooked: bool) -> None:
        assert callable(block)
        message = message_of(block(Apply(record_name="missing")), torch.zeros(2), hooked=hooked)
        assert_says(
            message, "Apply(operation='add', record_name='missing', alpha=1.0)", f"at '{path}'", "'record_1'"
        )

    def test_a_shape_in_a_container_is_found(self, hooked: bool) -> None:
        for container in (nn.Sequential, InOrder):
            block = ResidualSequential(Record(), container(nn.Linear(4, 2), Apply()))
            message = message_of(block, torch.zeros(3, 4), hooked=hooked)
            inside = "1.1" if container is nn.Sequential else "1.layers.1"
            assert_says(message, f"at '{inside}'", "'record_1'", "recorded (3, 4), current (3, 2)")

    def test_names_of_an_ordered_dict_are_used(self, hooked: bool) -> None:
        block = ResidualSequential()
        block.add_module("start", Record())
        block.add_module("end", Apply(record_name="missing"))
        assert_says(message_of(block, torch.zeros(2), hooked=hooked), "at 'end'")


def test_the_path_is_the_same_at_a_second_try() -> None:
    block = ResidualSequential(Record(), ResidualSequential(Apply(record_name="missing")))
    assert message_of(block, torch.zeros(2)) == message_of(block, torch.zeros(2))


WRONG: tuple[tuple[type[nn.Module], dict[str, object], str], ...] = (
    (Apply, {"record_name": ""}, "record_name must be a non-empty string or None, found ''"),
    (Apply, {"record_name": 3}, "record_name must be a non-empty string or None, found 3"),
    (Apply, {"alpha": "1"}, "alpha must be a number, a LearnableAlpha, a tensor or a Parameter, found '1'"),
    (Apply, {"scale": None}, "scale must be a number, a LearnableAlpha, a tensor or a Parameter, found None"),
    (Apply, {"projection": 3}, "projection must be a module or None, found 3"),
    (Apply, {"dim": "1"}, "dim must be an integer or None, found '1'"),
    (Apply, {"dim": True}, "dim must be an integer or None, found True"),
    (Record, {"name": ""}, "name must be a non-empty string or None, found ''"),
    (Record, {"name": 3}, "name must be a non-empty string or None, found 3"),
)


@pytest.mark.parametrize(("kind", "arguments", "message"), WRONG)
def test_arguments_of_the_wrong_kind_are_refused(
    kind: type[nn.Module], arguments: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(message)) as caught:
        kind(**arguments)
    assert isinstance(caught.value, ValueError)


def test_the_tree_of_errors_is_the_one_drawn() -> None:
    for kind in (StructureError, ShapeError, InPlaceError, UnsettledError, StateError):
        assert issubclass(kind, ResidualError)
        assert issubclass(kind, RuntimeError)
    assert issubclass(ConfigurationError, ResidualError)
    assert issubclass(ConfigurationError, ValueError)
    assert issubclass(OutsideBlockError, StructureError)
    assert issubclass(UnknownRecordError, StructureError)


def test_an_error_is_pickled_with_its_message() -> None:
    block = ResidualSequential(Record(), nn.Linear(4, 2), Apply())
    with pytest.raises(ShapeError) as caught:
        block(torch.zeros(3, 4))
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301 - our own bytes


class TestFirstMistakes:
    """What everybody types wrong once."""

    def test_a_name_in_the_place_of_need_projection_is_told_where_it_belongs(self) -> None:
        with pytest.raises(
            ConfigurationError, match=r"need_projection must be .* found 'a'; .* write name='a'"
        ):
            Record("a")  # type: ignore[arg-type]  # the mistake

    def test_a_name_in_the_place_of_the_operation_is_told_where_it_belongs(self) -> None:
        with pytest.raises(ConfigurationError, match=r"found 'a'; .* write record_name='a'"):
            Apply("a")

    def test_an_apply_in_front_of_its_record_is_told_so(self) -> None:
        block = ResidualSequential(Apply(record_name="a"), nn.Linear(2, 2), Record(name="a"))
        with pytest.raises(UnknownRecordError, match=r"at '0'.* the one named 'a' stands behind it: move it"):
            block(torch.zeros(1, 2))

    def test_no_projection_is_advised_where_none_would_help(self) -> None:
        block = ResidualSequential(Record(), nn.Conv2d(3, 8, 3), Apply())
        with pytest.raises(ShapeError) as caught:
            block(torch.zeros(1, 3, 32, 32))
        assert_says(
            str(caught.value), "recorded (1, 3, 32, 32), current (1, 8, 30, 30)", "padding=", "projection="
        )
        assert "need_projection" not in str(caught.value)

    def test_shapes_are_those_before_the_projection(self) -> None:
        block = ResidualSequential(Record(need_projection=True), nn.Conv2d(3, 8, 3), Apply())
        with pytest.raises(ShapeError, match=r"recorded \(1, 3, 32, 32\), current \(1, 8, 30, 30\)"):
            block(torch.zeros(1, 3, 32, 32))

    def test_a_misspelt_layer_is_asked_back(self) -> None:
        block = ResidualSequential(OrderedDict(attention=nn.MultiheadAttention(4, 1)))
        with pytest.raises(
            ConfigurationError, match=r"'atention' is no layer of this block. did you mean 'attention'"
        ):
            block(torch.zeros(1, 2, 4), atention={})

    @pytest.mark.skipif(sys.version_info < (3, 11), reason="Python has no notes")
    def test_an_error_of_a_layer_says_where_it_stands(self) -> None:
        block = ResidualSequential(nn.Identity(), ResidualSequential(nn.Linear(3, 3)))
        with pytest.raises(RuntimeError) as caught:
            block(torch.zeros(1, 2))
        assert caught.value.__notes__ == [
            "in a ResidualSequential, at '0': Linear",
            "in a ResidualSequential, at '1': ResidualSequential",
        ]

    def test_nan_is_no_weight(self) -> None:
        with pytest.raises(ConfigurationError, match="alpha must be a number, found nan"):
            Apply(alpha=float("nan"))


def nested(depth: int, innermost: nn.Module) -> nn.Module:
    block = innermost
    for _ in range(depth):
        block = ResidualSequential(Record(), block, Apply())
    return block


@pytest.fixture
def _the_usual_recursion_limit() -> Iterator[None]:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)  # compilers raise it, and leave it so
    yield
    sys.setrecursionlimit(limit)


@pytest.mark.usefixtures("_the_usual_recursion_limit")
def test_blocks_nested_deeper_than_python_can_call_are_an_error_that_says_so() -> None:
    block = nested(100, nn.Identity())
    assert block(torch.ones(1)).item() == 101
    deep = nested(250, nn.Identity())
    with pytest.raises(
        NestingError, match=r"nested deeper than Python can call.*setrecursionlimit"
    ) as caught:
        deep(torch.ones(1))
    assert isinstance(caught.value, RecursionError)
    assert "at '" not in str(caught.value)  # a place of hundreds of keys helps nobody
    with pytest.raises(NestingError):
        nested(1000, nn.Identity())(torch.ones(1))
    container: nn.Module = Record()
    for _ in range(1000):
        container = nn.Sequential(container)
    with pytest.raises(NestingError):
        ResidualSequential(container, Apply())


def test_a_layer_that_calls_itself_without_end_is_not_taken_for_nesting() -> None:
    class CallsItself(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return self.forward(x)

    with pytest.raises(RecursionError) as caught:
        nested(3, CallsItself())(torch.ones(1))
    assert not isinstance(caught.value, NestingError)


@pytest.mark.parametrize("watched", [False, True])
def test_an_apply_shared_by_places_of_other_sizes_is_told_so(watched: bool) -> None:
    apply = Apply()
    first = ResidualSequential(Record(need_projection=True), nn.Linear(4, 8), apply)
    ResidualSequential(Record(need_projection=True), nn.Linear(8, 16), apply)
    if watched:
        apply.register_forward_hook(lambda *_: None)
    with pytest.raises(ShapeError) as caught:
        first(torch.ones(1, 4))
    assert (
        "its projection was made for 8 features and the recorded tensor (1, 4) has 4 in dimension -1; where the same "
        "Apply stands in several places of other sizes, give each place one of its own" in str(caught.value)
    )


@pytest.mark.parametrize("value", ["a", None, [1]])
@pytest.mark.parametrize("name", ["initial_value", "min_value", "max_value"])
def test_a_learnable_alpha_of_no_number_says_which(name: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=rf"LearnableAlpha: {name} must be a number, found "):
        LearnableAlpha(**{name: value})  # type: ignore[arg-type]
