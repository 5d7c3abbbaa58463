from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn

from tests.torchresidual.toys import Doubled, Unknown, apply_in, gates_of, layer_of, projection_of
from torchresidual import (
    Apply,
    LearnableAlpha,
    Record,
    RecurrentWrapper,
    ResidualSequential,
    ShapeError,
    UnsettledError,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def skip(*layers: nn.Module, operation: str = "add") -> ResidualSequential:
    return ResidualSequential(Record(need_projection=True, name="r"), *layers, Apply(operation, "r"))


class Flat(nn.Module):
    """Wide features from a picture, which only a call can tell."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(-1)


class TestAtConstruction:
    """What the layers tell is there before the first call."""

    @pytest.mark.parametrize(
        ("layers", "shape", "expected"),
        [
            (lambda: [nn.Linear(4, 6)], (2, 4), "Linear(in_features=4, out_features=6, bias=True)"),
            (
                lambda: [nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 6)],
                (2, 3, 4),
                "Linear(in_features=4, out_features=6",
            ),
            (
                lambda: [nn.Conv1d(4, 6, 3, padding=1)],
                (2, 4, 9),
                "Conv1d(4, 6, kernel_size=(1,), stride=(1,))",
            ),
            (
                lambda: [nn.Conv2d(4, 6, 3, 2, 1)],
                (2, 4, 15, 15),
                "Conv2d(4, 6, kernel_size=(1, 1), stride=(2, 2))",
            ),
            (
                lambda: [nn.Conv2d(4, 4, 3, 2, 1)],
                (2, 4, 14, 15),
                "Conv2d(4, 4, kernel_size=(1, 1), stride=(2, 2))",
            ),
            (
                lambda: [nn.Conv3d(4, 6, 3, (1, 2, 2), 1)],
                (1, 4, 5, 8, 9),
                "Conv3d(4, 6, kernel_size=(1, 1, 1), stride=(1, 2",
            ),
            (
                lambda: [nn.Conv2d(4, 6, 3, 2, 1), nn.BatchNorm2d(6), nn.MaxPool2d(2)],
                (2, 4, 17, 17),
                "Conv2d(4, 6, kernel_size=(1, 1), stride=(4, 4))",
            ),
            (lambda: [nn.MaxPool2d(2, ceil_mode=True), nn.Conv2d(4, 6, 1)], (2, 4, 15, 15), "Conv2d(4, 6"),
            (lambda: [nn.MaxPool2d(2), nn.Conv2d(4, 6, 1)], (2, 4, 15, 14), "Conv2d(4, 6"),
            (
                lambda: [nn.AvgPool1d(2), nn.Conv1d(4, 4, 1)],
                (2, 4, 9),
                "Conv1d(4, 4, kernel_size=(1,), stride=(2,))",
            ),
            (lambda: [nn.LSTM(4, 6, batch_first=True)], (2, 5, 4), "Linear(in_features=4, out_features=6"),
            (
                lambda: [RecurrentWrapper(nn.LSTM(4, 6, batch_first=True, bidirectional=True))],
                (2, 5, 4),
                "Linear(in_features=4, out_features=12",
            ),
            (
                lambda: [nn.Sequential(nn.ReLU(), nn.Sequential(nn.Linear(4, 6)))],
                (2, 4),
                "Linear(in_features=4",
            ),
            (lambda: [ResidualSequential(nn.Conv1d(4, 6, 1))], (2, 4, 9), "Conv1d(4, 6, kernel_size=(1,)"),
            (
                lambda: [nn.Conv2d(4, 8, 1), nn.ConvTranspose2d(8, 6, 2, 2), nn.Conv2d(6, 6, 3, 2, 1)],
                (2, 4, 9, 9),
                "Conv2d(4, 6, kernel_size=(1, 1), stride=(1, 1))",
            ),
        ],
    )
    def test_the_projection_is_the_one_that_a_call_needs(
        self, layers: Callable[[], list[nn.Module]], shape: tuple[int, ...], expected: str
    ) -> None:
        block = skip(*layers())
        projection = projection_of(block)
        assert expected in repr(projection)
        assert projection is not None
        x = torch.randn(shape)
        out = block(x)
        out = out[0] if isinstance(out, tuple) else out
        branch = nn.Sequential(*list(block)[1:-1])
        current = branch(x)
        current = current[0] if isinstance(current, tuple) else current
        projected = projection(x)[tuple(slice(size) for size in current.shape)]
        torch.testing.assert_close(out, current + projected)
        assert projection_of(block) is projection

    @pytest.mark.parametrize(
        "layers",
        [
            lambda: [nn.Linear(4, 4)],
            lambda: [nn.ReLU()],
            list,
            lambda: [nn.Linear(4, 9), nn.Linear(9, 4)],
            lambda: [nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)],
            lambda: [nn.Conv2d(4, 8, 2, 2), nn.ConvTranspose2d(8, 4, 2, 2)],
            lambda: [nn.MultiheadAttention(4, 2)],
            lambda: [nn.LSTM(4, 2, bidirectional=True)],
            lambda: [nn.LayerNorm(4), nn.Dropout()],
            lambda: [nn.TransformerEncoderLayer(4, 2)],
        ],
    )
    def test_equal_sizes_add_no_parameter(self, layers: Callable[[], list[nn.Module]]) -> None:
        made = layers()
        block = skip(*made)
        assert projection_of(block) is None
        assert len(list(block.parameters())) == len(list(nn.Sequential(*made).parameters()))

    def test_the_projection_belongs_to_the_right_apply_among_several(self) -> None:
        block = ResidualSequential(
            Record(need_projection=True, name="input"),
            nn.Linear(64, 32),
            nn.ReLU(),
            Record(name="mid"),
            nn.Linear(32, 48),
            Apply(record_name="input"),
            nn.Linear(48, 32),
            Apply(record_name="mid"),
        )
        assert "in_features=64, out_features=48" in repr(projection_of(block, 0))
        assert projection_of(block, 1) is None

    def test_an_outer_block_sizes_the_applies_of_inner_ones(self) -> None:
        inner = skip(Doubled(), nn.Linear(8, 6), operation="highway")
        parameters = [id(parameter) for parameter in inner.parameters()]
        assert any(nn.parameter.is_lazy(parameter) for parameter in inner[3].parameters())
        outer = ResidualSequential(nn.Linear(3, 4), inner)
        assert "in_features=4, out_features=6" in repr(projection_of(outer))
        assert not any(nn.parameter.is_lazy(parameter) for parameter in outer.parameters())
        assert [id(parameter) for parameter in inner.parameters()] == parameters
        assert outer(torch.randn(2, 3)).shape == (2, 6)

    def test_a_name_of_an_enclosing_block_is_sized_too(self) -> None:
        block = ResidualSequential(
            Record(True, "out"),
            nn.Linear(4, 6),
            ResidualSequential(nn.Linear(6, 8), Apply(record_name="out")),
        )
        assert "in_features=4, out_features=8" in repr(projection_of(block))
        assert block(torch.randn(2, 4)).shape == (2, 8)

    def test_concat_adds_up_for_what_follows(self) -> None:
        block = ResidualSequential(
            Record(name="a"),
            nn.Linear(4, 6),
            Apply("concat", "a"),
            Record(True, "b"),
            nn.Linear(10, 3),
            Apply("add", "b"),
        )
        assert "in_features=10, out_features=3" in repr(projection_of(block, 1))
        assert block(torch.randn(2, 4)).shape == (2, 3)

    def test_with_a_projection_concat_gives_twice_the_size_of_x(self) -> None:
        block = ResidualSequential(
            Record(True), nn.Linear(4, 6), Apply("concat"), Record(True), nn.Linear(12, 3), Apply()
        )
        assert "in_features=12, out_features=3" in repr(projection_of(block, 1))
        assert block(torch.randn(2, 4)).shape == (2, 3)

    def test_the_encoder_block_of_the_readme_works_along_channels(self) -> None:
        block = ResidualSequential(
            Record(need_projection=True, name="input"),
            nn.Conv1d(64, 128, kernel_size=3, padding=1),
            nn.ReLU(),
            Record(name="mid"),
            nn.Conv1d(128, 128, kernel_size=3, padding=1),
            nn.ReLU(),
            Apply(record_name="input"),
            nn.BatchNorm1d(128),
            nn.Conv1d(128, 64, kernel_size=1),
            Apply(record_name="mid", operation="concat"),
        )
        assert repr(projection_of(block)) == "Conv1d(64, 128, kernel_size=(1,), stride=(1,))"
        for length in (10, 17, 128):
            x = torch.randn(4, 64, length)
            assert block(x).shape == (4, 192, length)
        block.eval()
        mid = block[1](x).relu()
        long = block[4](mid).relu() + layer_of(block, "6.projection_layer")(x)
        torch.testing.assert_close(block(x), torch.cat([block[8](block[7](long)), mid], 1))

    def test_highway_gates_of_pictures_work_along_channels(self) -> None:
        block = skip(nn.Conv2d(4, 4, 3, padding=1), operation="highway")
        transform, carry = gates_of(block)
        assert isinstance(transform, nn.Conv2d)
        assert transform.weight.shape == (4, 4, 1, 1)
        x = torch.randn(2, 4, 5, 9)
        current = block[1](x)
        expected = transform(current).sigmoid() * current + carry(x).sigmoid() * x
        torch.testing.assert_close(block(x), expected)

    def test_gates_start_closed_for_the_branch_and_open_for_the_skip(self) -> None:
        for block in (
            skip(nn.Linear(4, 4), operation="highway"),
            skip(Unknown(nn.Tanh()), operation="highway"),
        ):
            block(torch.zeros(1, 4))
            for gate, start in zip(gates_of(block), (-1.0, 1.0), strict=True):
                assert isinstance(gate, nn.Linear)
                assert torch.equal(gate.bias, torch.full((4,), start))
                nn.init.zeros_(gate.bias)
                gate.reset_parameters()
                assert torch.equal(gate.bias, torch.full((4,), start))

    def test_new_parameters_take_dtype_and_device_from_their_neighbours(self) -> None:
        block = skip(nn.Linear(4, 6, dtype=torch.bfloat16), operation="highway")
        assert {parameter.dtype for parameter in block.parameters()} == {torch.bfloat16}
        behind = ResidualSequential(
            Record(), nn.Tanh(), Apply("highway"), nn.Linear(4, 4, dtype=torch.float64)
        )
        assert behind(torch.zeros(2, 4, dtype=torch.float64)).dtype == torch.float64
        meta = skip(nn.Conv2d(4, 6, 3, 2, 1, device="meta"), operation="highway")
        assert all(parameter.is_meta for parameter in meta.parameters())
        assert meta(torch.empty(2, 4, 15, 15, device="meta")).shape == (2, 6, 8, 8)


class TestGiven:
    """What the user says wins."""

    def test_a_projection_of_the_users_own_is_always_applied(self) -> None:
        own = nn.Sequential(nn.Conv2d(4, 6, 1, 2, bias=False), nn.BatchNorm2d(6))
        branch = nn.Conv2d(4, 6, 3, 2, 1)
        for record in (Record(), Record(need_projection=True)):
            block = ResidualSequential(record, branch, Apply(projection=own)).eval()
            x = torch.randn(2, 4, 9, 9)
            torch.testing.assert_close(block(x), branch(x) + own(x))
            assert "2.projection_layer.0.weight" in block.state_dict()
        same = ResidualSequential(Record(), nn.Linear(4, 4), Apply(projection=nn.Linear(4, 4)))
        x = torch.randn(2, 4)
        torch.testing.assert_close(same(x), same[1](x) + layer_of(same, "2.projection_layer")(x))

    def test_a_projection_that_does_not_fit_is_said(self) -> None:
        block = ResidualSequential(
            Record(name="r"), nn.Linear(4, 6), Apply("add", "r", projection=nn.Linear(4, 5))
        )
        with pytest.raises(ShapeError, match=r"makes \(2, 5\) of it: recorded \(2, 4\), current \(2, 6\)"):
            block(torch.randn(2, 4))

    @pytest.mark.parametrize(
        ("dim", "expected"), [(1, (2, 6, 4)), (2, (2, 3, 8)), (-1, (2, 3, 8)), (0, (4, 3, 4))]
    )
    def test_dim_says_where_concat_joins(self, dim: int, expected: tuple[int, ...]) -> None:
        block = ResidualSequential(Record(), nn.Linear(4, 4), Apply("concat", dim=dim))
        assert block(torch.randn(2, 3, 4)).shape == expected

    def test_dim_says_where_features_are_projected(self) -> None:
        class Widens(nn.Module):
            def forward(self, x: Tensor) -> Tensor:
                return torch.cat([x, x], 1)

        block = ResidualSequential(Record(True), Widens(), Apply(dim=1))
        x = torch.randn(2, 3, 4)
        out = block(x)
        projection = projection_of(block)
        assert isinstance(projection, nn.Conv1d)
        torch.testing.assert_close(out, torch.cat([x, x], 1) + projection(x))

    def test_dim_against_the_layout_makes_gates_over_that_dimension(self) -> None:
        block = ResidualSequential(Record(), nn.Linear(4, 4), Apply("highway", dim=1))
        x = torch.randn(2, 3, 4)
        assert block(x).shape == (2, 3, 4)
        assert gates_of(block)[0].get_parameter("weight").shape[:2] == (3, 3)


class TestAtTheFirstCall:
    """What only a call can tell."""

    def test_an_optimizer_built_before_moves_the_projection(self) -> None:
        for layer in (nn.Linear(2, 4), Doubled()):
            block = skip(layer)
            optimizer = torch.optim.SGD(block.parameters(), lr=0.1)
            keys = list(block.state_dict())
            out = block(torch.ones(3, 2))
            projection = projection_of(block)
            assert isinstance(projection, nn.Linear)
            before = projection.weight.detach().clone()
            out.sum().backward()
            optimizer.step()
            assert list(block.state_dict()) == keys == [*keys]
            torch.testing.assert_close(projection.weight, before - 0.1 * torch.full((4, 2), 3.0))

    def test_if_nothing_is_needed_the_parameters_go(self) -> None:
        block = skip(Unknown(nn.Tanh()))
        assert len(list(block.parameters())) == 2
        x = torch.randn(2, 4)
        torch.testing.assert_close(block(x), x.tanh() + x)
        assert list(block.parameters()) == []
        assert list(block.state_dict()) == []

    @pytest.mark.parametrize(
        ("inner", "shape", "expected"),
        [
            (
                lambda: nn.Conv2d(4, 6, 3, 2, 1),
                (2, 4, 15, 15),
                "Conv2d(4, 6, kernel_size=(1, 1), stride=(2, 2))",
            ),
            (
                lambda: nn.Conv2d(4, 6, 3, 2),
                (2, 4, 15, 15),
                "Conv2d(4, 6, kernel_size=(1, 1), stride=(2, 2))",
            ),
            (lambda: nn.Conv1d(4, 6, 3, 4, 1), (2, 4, 17), "Conv1d(4, 6, kernel_size=(1,), stride=(4,))"),
            (
                lambda: nn.Conv3d(4, 6, 1),
                (2, 4, 3, 4, 5),
                "Conv3d(4, 6, kernel_size=(1, 1, 1), stride=(1, 1, 1))",
            ),
            (lambda: nn.Linear(4, 6), (2, 4), "Linear(in_features=4, out_features=6, bias=True)"),
            (lambda: nn.Linear(4, 6), (2, 5, 4), "Linear(in_features=4, out_features=6, bias=True)"),
        ],
    )
    def test_shapes_tell_what_the_layer_could_not(
        self, inner: Callable[[], nn.Module], shape: tuple[int, ...], expected: str
    ) -> None:
        layer = inner()
        block = skip(Unknown(layer))
        x = torch.randn(shape)
        out = block(x)
        assert repr(projection_of(block)) == expected
        current = layer(x)
        projected = projection_of(block)(x)  # type: ignore[misc]  # made by the call
        torch.testing.assert_close(out, current + projected[tuple(slice(size) for size in current.shape)])

    @pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
    def test_a_first_call_without_gradients_leaves_it_trainable(self, mode: type[torch.no_grad]) -> None:
        block = skip(Doubled(), operation="highway")
        with mode():
            block(torch.randn(3, 4))
        block(torch.randn(3, 4)).sum().backward()
        assert all(parameter.grad is not None for parameter in block.parameters())
        assert not any(parameter.is_inference() for parameter in block.parameters())

    def test_the_random_numbers_of_the_program_stay_the_same(self) -> None:
        block = skip(Doubled())
        state = torch.get_rng_state()
        block(torch.ones(3, 4))
        assert torch.equal(torch.get_rng_state(), state)

    def test_it_starts_as_the_ordinary_layer_would(self) -> None:
        torch.manual_seed(5)
        expected = nn.Linear(4, 8)
        block = skip(Doubled())
        torch.manual_seed(5)
        block(torch.ones(3, 4))
        projection = projection_of(block)
        assert isinstance(projection, nn.Linear)
        assert type(projection) is nn.Linear
        assert torch.equal(projection.weight, expected.weight)
        assert torch.equal(projection.bias, expected.bias)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
    def test_a_dtype_chosen_before_is_kept(self, dtype: torch.dtype) -> None:
        block = skip(Doubled(), operation="highway").to(dtype)
        assert block(torch.ones(3, 4, dtype=dtype)).dtype == dtype
        assert {parameter.dtype for parameter in block.parameters()} == {dtype}

    def test_a_block_moved_to_meta_settles_there(self) -> None:
        block = skip(Doubled(), operation="highway").to("meta")
        assert block(torch.empty(3, 4, device="meta")).shape == (3, 8)
        assert all(parameter.is_meta for parameter in block.parameters())

    def test_to_empty_moves_what_has_no_values_yet(self) -> None:
        block = skip(Doubled(), operation="highway").to("meta").to_empty(device="cpu")
        assert block(torch.ones(3, 4)).shape == (3, 8)
        assert not any(parameter.is_meta for parameter in block.parameters())

    def test_moving_keeps_the_objects_that_an_optimizer_holds(self) -> None:
        block = skip(Doubled())
        before = [id(parameter) for parameter in block.parameters()]
        block.double().bfloat16().cpu()
        assert [id(parameter) for parameter in block.parameters()] == before

    def test_a_replica_refuses_and_names_the_way_out(self) -> None:
        for operation in ("add", "highway"):
            block = skip(Doubled(), operation=operation)
            replica = as_replica(block)
            with pytest.raises(UnsettledError) as caught:
                replica(torch.ones(3, 4))
            assert "in a DataParallel replica" in str(caught.value)
            assert "block.materialize(example)" in str(caught.value)
            assert "at '2'" in str(caught.value)

    def test_a_compiler_is_refused_and_the_way_out_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("torchresidual.bridging.is_compiling", lambda: True)
        for operation in ("add", "highway"):
            with pytest.raises(
                UnsettledError, match=r"while the block is exported.*block.materialize\(example\) first"
            ):
                skip(Doubled(), operation=operation)(torch.ones(3, 4))

    def test_an_unsettled_twin_and_a_settled_one_load_each_others_values(self) -> None:
        first, second = skip(Doubled()), skip(Doubled())
        first(torch.ones(3, 4))
        second.load_state_dict(copy.deepcopy(first.state_dict()))
        x = torch.randn(3, 4)
        torch.testing.assert_close(second(x), first(x))
        third = skip(Doubled())
        third(torch.ones(3, 4))
        third.load_state_dict(first.state_dict())
        torch.testing.assert_close(third(x), first(x))

    def test_loaded_values_of_another_size_are_refused_by_both_shapes(self) -> None:
        first, second = skip(Doubled()), skip(Doubled())
        first(torch.ones(3, 4))
        second.load_state_dict(first.state_dict())
        with pytest.raises(
            ShapeError, match=r"loaded a weight of shape \(8, 4\), this input needs \(10, 5\)"
        ):
            second(torch.ones(3, 5))


def as_replica(block: nn.Module) -> nn.Module:
    """A replica as DataParallel would make it if it could copy uninitialized parameters."""
    replica = copy.deepcopy(block)
    for module in replica.modules():
        module._is_replica = True  # type: ignore[assignment]  # what torch sets
    return replica


class TestRefused:
    """Differences that no projection explains."""

    @pytest.mark.parametrize(
        ("block", "shape", "message"),
        [
            (
                lambda: skip(nn.Conv2d(4, 6, 3, 2, 1), Unknown(nn.Upsample(scale_factor=4))),
                (2, 4, 8, 8),
                r"recorded \(2, 4, 8, 8\), current \(2, 6, 16, 16\); an upsampling skip needs a module of your own",
            ),
            (
                lambda: skip(nn.ConvTranspose2d(4, 6, 2, 2)),
                (2, 4, 8, 8),
                r"recorded \(2, 4, 8, 8\), current \(2, 6, 16, 16\); no projection bridges that.*projection=",
            ),
            (lambda: skip(Flat()), (2, 4, 8), r"the number of dimensions differs.*projection="),
            (
                lambda: skip(Unknown(nn.Conv1d(4, 6, 5, 2))),
                (2, 4, 20),
                r"recorded \(2, 4, 20\), current \(2, 6, 8\); pass projection=",
            ),
        ],
    )
    def test_the_error_shows_both_shapes_and_says_projection(
        self, block: Callable[[], ResidualSequential], shape: tuple[int, ...], message: str
    ) -> None:
        with pytest.raises(ShapeError, match=message) as caught:
            block()(torch.randn(shape))
        assert "'r'" in str(caught.value)

    def test_shared_learnable_alpha_is_not_touched_by_sizing(self) -> None:
        alpha = LearnableAlpha(0.5)
        block = ResidualSequential(
            Record(True), nn.Linear(4, 6), Apply(alpha=alpha), nn.Linear(6, 6), Apply(alpha=alpha)
        )
        assert apply_in(block, 0).alpha is apply_in(block, 1).alpha is alpha


class TestLater:
    """What happens to sizes after a block was made."""

    def test_a_state_saved_after_nothing_was_needed_loads_into_a_new_block(self) -> None:
        for operation in ("add", "highway"):
            settled = skip(Unknown(nn.Identity()), operation=operation)
            settled(torch.ones(2, 4))
            fresh = skip(Unknown(nn.Identity()), operation=operation)
            assert str(fresh.load_state_dict(settled.state_dict())) == "<All keys matched successfully>"
            torch.testing.assert_close(fresh(torch.ones(2, 4)), settled(torch.ones(2, 4)))

    def test_the_stride_is_the_layers_own_and_not_read_off_the_first_input(self) -> None:
        for pool in (nn.MaxPool2d(2), nn.AvgPool2d(2)):
            block = skip(pool)
            assert block(torch.randn(1, 4, 5, 5)).shape == (1, 4, 2, 2)
            assert getattr(projection_of(block), "stride", None) == (2, 2)
            for size in (8, 9):
                assert block(torch.randn(1, 4, size, size)).shape == (1, 4, size // 2, size // 2)

    def test_what_is_asked_for_later_is_made_by_materialize(self) -> None:
        block = ResidualSequential(Record(name="a"), nn.Linear(4, 8), Apply(record_name="a"))
        record = block[0]
        assert isinstance(record, Record)
        record.need_projection = True
        with pytest.raises(ShapeError, match=r"set after the block was made.*block\.materialize\(example\)"):
            block(torch.ones(2, 4))
        assert block.materialize(torch.ones(2, 4))(torch.ones(2, 4)).shape == (2, 8)

    def test_a_patched_forward_of_an_apply_or_record_is_called(self) -> None:
        block = ResidualSequential(Record(), nn.ReLU(), Apply())
        block.get_submodule("2").forward = lambda z: z * 100
        assert block(torch.ones(1)).item() == 100
        block.get_submodule("0").forward = lambda z: z * 2
        assert block(torch.ones(1)).item() == 200
