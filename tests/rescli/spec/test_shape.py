"""The text of --input."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescli.errors import CommandLineError
from rescli.spec.shape import INPUT_DTYPES, InputShape, parse_input


@pytest.mark.parametrize(
    ("text", "shape", "dtype"),
    [
        ("8x64", (8, 64), None),
        ("4x64x100", (4, 64, 100), None),
        ("2x16:int64", (2, 16), "int64"),
        ("1", (1,), None),
        (" 8X64 ", (8, 64), None),
        ("0x3", (0, 3), None),
    ],
)
def test_sizes_are_joined_by_x_and_a_type_may_follow(
    text: str, shape: tuple[int, ...], dtype: str | None
) -> None:
    assert parse_input(text) == InputShape(shape, dtype)


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=6), st.sampled_from([None, *INPUT_DTYPES]))
def test_every_shape_that_is_written_is_read_back(sizes: list[int], dtype: str | None) -> None:
    text = "x".join(map(str, sizes)) + (f":{dtype}" if dtype else "")
    assert parse_input(text) == InputShape(tuple(sizes), dtype)


@pytest.mark.parametrize(
    "text", ["", "8x", "x8", "8,64", "-1x3", "8x64x", "axb", "(8, 64)", "8*64", ":int64"]
)
def test_what_is_no_shape_is_refused_with_examples(text: str) -> None:
    with pytest.raises(CommandLineError, match="is no shape") as caught:
        parse_input(text)
    assert "8x64, 4x64x100, 2x16:int64" in caught.value.hint


@pytest.mark.parametrize("text", ["8:int65", "8:", "8:float", "8:Tensor"])
def test_a_type_that_does_not_exist_is_refused_with_those_that_do(text: str) -> None:
    with pytest.raises(CommandLineError, match="is no type of a tensor") as caught:
        parse_input(text)
    assert "float32" in caught.value.hint
    assert "int64" in caught.value.hint
