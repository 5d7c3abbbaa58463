from __future__ import annotations

import pytest
import torch

from rescli.graph.formulas import FORMULAS, WITHOUT_FORMULA, Call, lacks_formula


def test_arguments_are_read_by_place_or_by_name() -> None:
    call = Call((1,), {"mat2": 2}, out=None)
    assert (call.get(0, "input"), call.get(1, "other", "mat2"), call.get(2, "out")) == (1, 2, None)
    with pytest.raises(TypeError, match="argument 0 is no tensor"):
        call.tensor(0, "input")


def test_functions_that_multiply_without_a_formula_are_known() -> None:
    lacking = ["fft_rfft", "linalg_svd", "cdist", "_transformer_encoder_layer_fwd", "matrix_exp"]
    assert all(lacks_formula(name) for name in lacking)
    assert not any(lacks_formula(name) for name in ["relu", "linalg_norm", "layer_norm", *FORMULAS])


def test_every_name_without_a_formula_is_a_function_of_torch() -> None:
    """A misspelt name would never be met, and its work silently be left out."""
    places = (torch, torch.Tensor, torch.nn.functional, torch._C._VariableFunctions)
    # Newer releases have more functions; those of the oldest one supported must all be there.
    recent = {"_grouped_mm", "grouped_mm", "scaled_grouped_mm", "scaled_mm"}
    missing = {name for name in WITHOUT_FORMULA if not any(hasattr(place, name) for place in places)}
    assert missing <= recent | {torch.sparse.mm.__name__}
