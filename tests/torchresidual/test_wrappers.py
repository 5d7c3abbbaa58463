from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_sequence, pad_packed_sequence

from torchresidual import (
    Apply,
    ConfigurationError,
    Record,
    RecurrentWrapper,
    ResidualSequential,
    ShapeError,
    StructureError,
)

RNNS: dict[str, type[nn.RNNBase]] = {"LSTM": nn.LSTM, "GRU": nn.GRU, "RNN": nn.RNN}


def rnn(kind: str, features: int = 4) -> nn.RNNBase:
    layer: nn.RNNBase = {"LSTM": nn.LSTM, "GRU": nn.GRU, "RNN": nn.RNN}[kind](
        features, features, batch_first=True
    )
    return layer


@pytest.mark.parametrize("kind", RNNS)
def test_a_wrapped_rnn_gives_its_sequence(kind: str) -> None:
    layer = rnn(kind)
    x = torch.randn(2, 5, 4)
    torch.testing.assert_close(
        ResidualSequential(Record(), RecurrentWrapper(layer), Apply())(x), layer(x)[0] + x
    )


@pytest.mark.parametrize("kind", RNNS)
def test_return_hidden_gives_the_hidden_state_as_one_extra(kind: str) -> None:
    layer = rnn(kind)
    x = torch.randn(2, 5, 4)
    out, extras = ResidualSequential(Record(), RecurrentWrapper(layer, return_hidden=True), Apply())(x)
    sequence, hidden = layer(x)
    torch.testing.assert_close(out, sequence + x)
    assert len(extras) == 1
    torch.testing.assert_close(extras[0], hidden)


@pytest.mark.parametrize("kind", RNNS)
def test_an_rnn_without_a_wrapper_gives_sequence_and_hidden_state(kind: str) -> None:
    layer = rnn(kind)
    x = torch.randn(2, 5, 4)
    out, extras = ResidualSequential(Record(), layer, Apply())(x)
    sequence, hidden = layer(x)
    torch.testing.assert_close(out, sequence + x)
    torch.testing.assert_close(extras, [hidden])


@pytest.mark.parametrize("kind", RNNS)
def test_hidden_goes_to_the_direct_wrappers(kind: str) -> None:
    layer = rnn(kind)
    x, state = torch.randn(2, 5, 4), torch.randn(1, 2, 4)
    hidden = (state, state) if kind == "LSTM" else state
    block = ResidualSequential(Record(), RecurrentWrapper(layer), nn.Identity(), Apply())
    torch.testing.assert_close(block(x, hidden), layer(x, hidden)[0] + x)
    torch.testing.assert_close(block(x, hidden=hidden), layer(x, hidden)[0] + x)


def test_hidden_without_a_wrapper_is_refused() -> None:
    with pytest.raises(
        ConfigurationError, match="hidden state of RecurrentWrappers, and none is a direct child"
    ):
        ResidualSequential(nn.Linear(2, 2))(torch.zeros(1, 2), hidden=torch.zeros(1))


def test_module_kwargs_go_to_the_child_of_that_name() -> None:
    layer = rnn("GRU")
    x, state = torch.randn(2, 5, 4), torch.randn(1, 2, 4)
    inner = ResidualSequential(Record(), RecurrentWrapper(layer), Apply())
    block = ResidualSequential(inner)
    torch.testing.assert_close(block(x, **{"0": {"hidden": state}}), layer(x, state)[0] + x)


def test_keyword_arguments_for_nobody_are_refused_with_the_names_there_are() -> None:
    block = ResidualSequential(Record(), nn.Linear(2, 2), Apply())
    with pytest.raises(ConfigurationError, match=r"'7' is no layer of this block.*; layers: '1'"):
        block(torch.zeros(1, 2), **{"7": {"a": 1}})
    with pytest.raises(
        ConfigurationError, match=r"1= must be a dict of keyword arguments for layer '1'.*; found int"
    ):
        block(torch.zeros(1, 2), **{"1": 3})


class Gives(nn.Module):
    """Returns x together with given things."""

    def __init__(self, *others: object) -> None:
        super().__init__()
        self.others = others

    def forward(self, x: Tensor) -> tuple[object, ...]:
        return (x, *self.others)


def test_extras_are_flattened_and_none_is_dropped() -> None:
    inner = ResidualSequential(Gives(1), Gives(None, 2))
    block = ResidualSequential(Record(), inner, Gives(("h", "c")), Gives([3, None, 4]), Apply())
    x = torch.ones(2)
    out, extras = block(x)
    assert torch.equal(out, 2 * x)
    assert extras == [1, 2, ("h", "c"), 3, 4]


def test_without_extras_the_tensor_comes_alone() -> None:
    assert torch.equal(
        ResidualSequential(Record(), Gives(None), Apply())(torch.ones(2)), torch.full((2,), 2.0)
    )


class TestAttention:
    """Self-attention as a layer."""

    def make(self) -> nn.MultiheadAttention:
        return nn.MultiheadAttention(8, 2, batch_first=True)

    def test_attention_is_called_with_x_three_times(self) -> None:
        attention = self.make()
        x = torch.randn(2, 5, 8)
        block = ResidualSequential(Record(name="input"), attention, Apply(record_name="input"))
        torch.testing.assert_close(block(x), attention(x, x, x, need_weights=False)[0] + x)

    def test_masks_come_through_module_kwargs_and_weights_are_an_extra(self) -> None:
        attention = self.make()
        x, mask = torch.randn(2, 5, 8), torch.ones(5, 5).triu(1).bool()
        block = ResidualSequential(Record(), attention, Apply())
        expected, weights = attention(x, x, x, attn_mask=mask)
        out, extras = block(x, **{"1": {"attn_mask": mask, "need_weights": True}})
        torch.testing.assert_close(out, expected + x)
        torch.testing.assert_close(extras, [weights])

    def test_the_transformer_block_of_the_readme_works(self) -> None:
        block = ResidualSequential(
            Record(name="input"),
            nn.MultiheadAttention(embed_dim=16, num_heads=8),
            Apply(record_name="input"),
            nn.LayerNorm(16),
            Record(name="attn_out"),
            nn.Linear(16, 64),
            nn.ReLU(),
            nn.Linear(64, 16),
            Apply(record_name="attn_out"),
            nn.LayerNorm(16),
        )
        x = torch.randn(5, 2, 16)
        attended = block[3](block[1](x, x, x)[0] + x)
        torch.testing.assert_close(block(x), block[9](block[7](block[5](attended).relu()) + attended))

    @pytest.mark.parametrize("hooked", [False, True])
    @pytest.mark.parametrize("with_apply", [False, True])
    def test_inside_a_plain_sequential_it_says_where_to_put_it(self, with_apply: bool, hooked: bool) -> None:
        inside = [nn.Identity(), nn.Sequential(self.make()), *([Apply()] if with_apply else [])]
        block = ResidualSequential(Record(), nn.Sequential(*inside), Apply())
        if hooked:
            for module in block.modules():
                module.register_forward_hook(lambda *_: None)
        with pytest.raises(StructureError) as caught:
            block(torch.randn(2, 5, 8))
        assert "MultiheadAttention at '1.1.0'" in str(caught.value)
        assert "put it directly into the block, or into a nested ResidualSequential" in str(caught.value)

    def test_in_a_nested_block_it_works(self) -> None:
        attention = self.make()
        x = torch.randn(2, 5, 8)
        block = ResidualSequential(Record(), nn.Sequential(ResidualSequential(attention)), Apply())
        torch.testing.assert_close(block(x), attention(x, x, x, need_weights=False)[0] + x)


class TestPacked:
    """Sequences of different lengths."""

    def packed(self) -> PackedSequence:
        return pack_sequence([torch.randn(2, 4), torch.randn(5, 4), torch.randn(3, 4)], enforce_sorted=False)

    @pytest.mark.parametrize("operation", ["add", "multiply", "gated", "highway"])
    def test_the_operation_works_on_the_data(self, operation: str) -> None:
        layer = rnn("LSTM")
        block = ResidualSequential(Record(), RecurrentWrapper(layer), Apply(operation, alpha=0.5, scale=2.0))
        packed = self.packed()
        out = block(packed)
        data = 2.0 * layer(packed)[0].data
        single = ResidualSequential(Record(name="r"), _Replace(data), Apply(operation, "r", 0.5))
        if operation == "highway":
            single[2].gate_layer = block[2].gate_layer
        assert isinstance(out, PackedSequence)
        torch.testing.assert_close(out.data, single(packed.data))
        assert torch.equal(out.batch_sizes, packed.batch_sizes)
        assert out.sorted_indices is packed.sorted_indices
        assert out.unsorted_indices is packed.unsorted_indices

    def test_concat_and_projections_work_along_features(self) -> None:
        layer = nn.LSTM(4, 6, batch_first=True)
        block = ResidualSequential(Record(need_projection=True), RecurrentWrapper(layer), Apply("concat"))
        padded, lengths = pad_packed_sequence(block(self.packed()), batch_first=True)
        assert padded.shape == (3, 5, 12)
        assert lengths.tolist() == [2, 5, 3]

    def test_a_tensor_and_a_packed_sequence_do_not_mix(self) -> None:
        class Pads(nn.Module):
            def forward(self, x: PackedSequence) -> Tensor:
                return pad_packed_sequence(x)[0]

        block = ResidualSequential(Record(), Pads(), Apply())
        with pytest.raises(ShapeError, match="PackedSequence at the Record, Tensor here"):
            block(self.packed())

    def test_other_lengths_are_refused(self) -> None:
        block = ResidualSequential(Record(), _Replace(pack_sequence([torch.zeros(5, 4)])), Apply())
        with pytest.raises(ShapeError, match="other lengths or another order"):
            block(self.packed())


class _Replace(nn.Module):
    def __init__(self, value: Tensor | PackedSequence) -> None:
        super().__init__()
        self.value = value

    def forward(self, _: object) -> Tensor | PackedSequence:
        return self.value


def test_the_representation_shows_the_wrapped_layer() -> None:
    text = repr(RecurrentWrapper(nn.GRU(2, 3), return_hidden=True))
    assert text == "RecurrentWrapper(return_hidden=True, module=GRU(2, 3))"


def test_a_layer_that_returns_a_tensor_is_not_taken_apart() -> None:
    with pytest.raises(StructureError, match="returns a tensor; put that layer into the block as it is"):
        RecurrentWrapper(nn.Linear(3, 3))(torch.ones(2, 3))
    with pytest.raises(ConfigurationError, match=r"wraps a recurrent layer, as nn\.LSTM"):
        RecurrentWrapper(None)  # type: ignore[arg-type]  # the mistake
