from __future__ import annotations

import pytest

from rescli.render import charset
from rescli.render.charset import can_draw
from rescli.render.gutter import UNICODE
from rescli.render.style import Style


@pytest.mark.parametrize(
    ("encoding", "can"),
    [
        *(("utf-8", True), ("utf-16", True)),
        *(("ascii", False), ("latin-1", False), ("cp437", False), ("gbk", False), (None, False)),
        ("no-such-encoding", False),
    ],
)
def test_only_a_stream_that_takes_every_character_gets_pictures(encoding: str | None, *, can: bool) -> None:
    assert can_draw(encoding) is can


def test_every_character_of_pictures_is_asked_for() -> None:
    lines = {
        UNICODE.across,
        UNICODE.down,
        UNICODE.crossing,
        UNICODE.leaves,
        UNICODE.branches,
        UNICODE.arrives,
    }
    signs = {Style().left, Style().right, Style().times, Style().at_least}
    assert {*UNICODE.nodes.values()} | lines | signs <= set(charset._DRAWN_WITH)
