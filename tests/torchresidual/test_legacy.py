"""States and pickles that torchresidual 0.1.0 left behind; tests/data/make_legacy.py made the files."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from torchresidual import Apply, LearnableAlpha, Record, RecurrentWrapper, ResidualSequential

DATA = Path(__file__).parents[1] / "data"


def saved(name: str) -> dict[str, Any]:
    """Read one of the files; what is pickled inside is bytes still."""
    content: dict[str, Any] = torch.load(DATA / f"legacy_{name}.pt", weights_only=False)
    return content


def model() -> ResidualSequential:
    return ResidualSequential(
        Record(need_projection=True, name="r"),
        nn.Linear(4, 6),
        Apply("highway", "r"),
        nn.Linear(6, 6),
        Apply("gated", alpha=LearnableAlpha(0.3)),
        Record(),
        nn.Linear(6, 6),
        Apply(alpha=LearnableAlpha(0.01, 1e-4, 1.0)),
        RecurrentWrapper(nn.GRU(6, 6, batch_first=True)),
    )


def test_a_state_saved_after_a_forward_gives_the_same_output() -> None:
    content = saved("after_forward")
    block = model()
    assert str(block.load_state_dict(content["state"], strict=True)) == "<All keys matched successfully>"
    torch.testing.assert_close(block(content["input"]), content["output"], rtol=0, atol=1e-6)


def test_a_state_saved_before_a_forward_keeps_the_initialisation_of_what_it_lacks_and_says_so() -> None:
    content = saved("before_forward")
    block = model()
    projection = block.get_parameter("2.projection_layer.weight").clone()
    with pytest.warns(UserWarning, match="lacks") as caught:
        block.load_state_dict(content["state"], strict=True)
    named = " ".join(str(warning.message) for warning in caught)
    for key in ("2.projection_layer.weight", "2.gate_layer.carry_gate.bias", "4.projection_layer.bias"):
        assert key in named
    assert torch.equal(block.get_parameter("2.projection_layer.weight"), projection)
    assert torch.equal(block.get_parameter("1.weight"), content["state"]["1.weight"])


def test_a_state_of_ours_that_lacks_a_projection_is_refused() -> None:
    """The twin: only states of 0.1.0 may lack keys."""
    state = model().state_dict()
    for key in [key for key in state if key.startswith("2.")]:
        del state[key]
    with pytest.raises(RuntimeError, match=r"Missing key.*2\.projection_layer\.weight"):
        model().load_state_dict(state)


def test_a_state_that_lacks_only_some_keys_of_an_apply_is_refused() -> None:
    state = saved("after_forward")["state"]
    del state["2.projection_layer.bias"]
    with pytest.raises(RuntimeError, match=r"Missing key.*2\.projection_layer\.bias"):
        model().load_state_dict(state)


def test_a_projection_along_the_width_of_a_picture_is_refused_by_name() -> None:
    block = ResidualSequential(Record(need_projection=True), nn.Conv1d(2, 3, 3, stride=2, padding=1), Apply())
    with pytest.raises(RuntimeError) as caught:
        block.load_state_dict(saved("pictures")["state"])
    assert "2.projection_layer.weight has shape (4, 8)" in str(caught.value)
    assert "1x1 convolution over channels of shape (3, 2, 1)" in str(caught.value)
    assert "size mismatch" not in str(caught.value)


def test_a_model_pickled_after_a_forward_gives_the_same_output() -> None:
    content = saved("after_forward")
    block: Any = torch.load(io.BytesIO(content["model"]), weights_only=False)
    assert type(block) is ResidualSequential
    torch.testing.assert_close(block(content["input"]), content["output"], rtol=0, atol=1e-6)
    assert [block[0].name, block[5].name, block[0].need_projection] == ["r", "record_2", True]
    assert model()[5].name == "record_2"
    for path in ("4.alpha", "7.alpha"):
        alpha = block.get_submodule(path)
        assert isinstance(alpha, LearnableAlpha)
        assert alpha.param.shape == (1,)
        assert isinstance(alpha.param, nn.Parameter)
    # What it became is an ordinary model of ours: it can be saved and loaded again.
    again = pickle.loads(pickle.dumps(block))  # noqa: S301 - our own bytes
    assert torch.equal(again(content["input"]), block(content["input"]))
    assert model().load_state_dict(block.state_dict()) is not None


def test_a_model_pickled_before_a_forward_gets_its_projections_and_gates() -> None:
    content = saved("before_forward")
    block = pickle.loads(content["pickle"])  # noqa: S301 - made by the script beside the file
    assert {"2.projection_layer.weight", "2.gate_layer.transform_gate.weight"} <= set(block.state_dict())
    assert block(content["input"]).shape == (2, 3, 6)
