"""Fragments as people paste them from a README: a file of nothing else is a spec."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from rescli.spec.prepare import Request, prepare

if TYPE_CHECKING:
    from pathlib import Path

# name: the fragment, what its block is called, input, output
FRAGMENTS = {
    "basic": (
        """
        import torch
        import torch.nn as nn
        from torchresidual import ResidualSequential, Record, Apply

        block = ResidualSequential(
            Record(name="input"),
            nn.Linear(64, 64),
            nn.ReLU(),
            nn.LayerNorm(64),
            Apply(record_name="input", operation="add"),
        )

        x = torch.randn(8, 64)
        out = block(x)
        """,
        "block",
        (8, 64),
        (8, 64),
    ),
    "two skips": (
        """
        block = ResidualSequential(
            Record(name="input", need_projection=True),
            nn.Linear(64, 32),
            nn.ReLU(),
            Record(name="mid"),
            nn.Linear(32, 64),
            Apply(record_name="input"),
            nn.LayerNorm(64),
            nn.Linear(64, 32),
            Apply(record_name="mid"),
        )
        """,
        "block",
        (8, 64),
        (8, 32),
    ),
    "learnable alpha and an optimizer": (
        """
        from torchresidual import LearnableAlpha

        block = ResidualSequential(
            Record(name="r"),
            nn.Linear(64, 64),
            Apply(
                record_name="r",
                operation="gated",
                alpha=LearnableAlpha(0.3, min_value=0.0, max_value=1.0)
            ),
        )

        optimizer = torch.optim.Adam(block.parameters(), lr=1e-3)
        """,
        "block",
        (8, 64),
        (8, 64),
    ),
    "projection": (
        """
        block = ResidualSequential(
            Record(name="r", need_projection=True),
            nn.Linear(64, 128),
            nn.ReLU(),
            Apply(record_name="r"),
        )
        """,
        "block",
        (8, 64),
        (8, 128),
    ),
    "lstm": (
        """
        from torchresidual import RecurrentWrapper

        block = ResidualSequential(
            Record(name="r"),
            RecurrentWrapper(
                nn.LSTM(32, 32, num_layers=2, batch_first=True),
                return_hidden=False
            ),
            Apply(record_name="r"),
        )

        x = torch.randn(4, 10, 32)
        out = block(x)
        """,
        "block",
        (8, 16, 32),
        (8, 16, 32),
    ),
    "names left out": (
        """
        block = ResidualSequential(
            nn.Linear(64, 64),
            Record(),
            nn.ReLU(),
            Apply(),
        )
        """,
        "block",
        (8, 64),
        (8, 64),
    ),
    "transformer": (
        """
        block = ResidualSequential(
            Record(name="input"),
            nn.MultiheadAttention(embed_dim=256, num_heads=8),
            Apply(record_name="input"),
            nn.LayerNorm(256),

            Record(name="attn_out"),
            nn.Linear(256, 1024),
            nn.ReLU(),
            nn.Linear(1024, 256),
            Apply(record_name="attn_out"),
            nn.LayerNorm(256),
        )
        """,
        "block",
        (16, 8, 256),
        (16, 8, 256),
    ),
    "nested": (
        """
        inner_block = ResidualSequential(
            Record(),
            nn.Linear(64, 64),
            nn.ReLU(),
            Apply(),
        )

        outer_block = ResidualSequential(
            Record(),
            inner_block,
            nn.Linear(64, 64),
            Apply(),
        )
        """,
        "outer_block",
        (8, 64),
        (8, 64),
    ),
    "encoder": (
        """
        from collections import OrderedDict

        encoder = ResidualSequential(OrderedDict([
            ('record_input', Record(need_projection=True, name="input")),
            ('conv1', nn.Conv1d(64, 128, kernel_size=3, padding=1)),
            ('relu1', nn.ReLU()),
            ('record_mid', Record(name="mid")),
            ('conv2', nn.Conv1d(128, 128, kernel_size=3, padding=1)),
            ('relu2', nn.ReLU()),
            ('apply_long', Apply(record_name="input")),
            ('norm', nn.BatchNorm1d(128)),
            ('conv3', nn.Conv1d(128, 64, kernel_size=1)),
            ('apply_short', Apply(record_name="mid", operation="concat")),
        ]))
        """,
        "encoder",
        (8, 64, 64),
        (8, 192, 64),
    ),
}


@pytest.mark.parametrize("name", FRAGMENTS)
def test_a_pasted_fragment_is_a_spec_that_runs(name: str, tmp_path: Path) -> None:
    fragment, variable, taken, given = FRAGMENTS[name]
    path = tmp_path / "pasted.py"
    path.write_text(textwrap.dedent(fragment), encoding="utf-8")
    (block,) = prepare(str(path), Request())
    assert block.name == variable
    assert [tuple(tensor.shape) for tensor in block.inputs] == [taken]
    assert tuple(block.module(*block.inputs).shape) == given
    assert block.origin == "inferred"


def test_all_fragments_in_one_file_leave_what_was_defined_last(tmp_path: Path) -> None:
    path = tmp_path / "pasted.py"
    path.write_text(
        "\n".join(textwrap.dedent(fragment[0]) for fragment in FRAGMENTS.values()), encoding="utf-8"
    )
    blocks = prepare(str(path), Request())
    assert [block.name for block in blocks] == ["block", "outer_block", "encoder"]
    assert tuple(blocks[0].inputs[0].shape) == (16, 8, 256)
