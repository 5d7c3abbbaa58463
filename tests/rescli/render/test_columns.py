from __future__ import annotations

from rescli.render.columns import Column, columns_of, lay_out, table
from rescli.render.style import fixed

COLUMNS = (Column("name", yields=1), Column("size", is_number=True))


def test_numbers_stand_to_the_right_and_lines_have_no_space_at_their_end() -> None:
    assert table(COLUMNS, [("a", "1"), ("long name", "1,000"), ("none", "")], 80) == [
        "name        size",
        "a              1",
        "long name  1,000",
        "none",
    ]


def test_a_column_that_yields_is_broken_between_words() -> None:
    rows = [("  one two three four", "12")]
    assert table(COLUMNS, rows, 18, indent=" ") == [
        " name         size",
        "   one two      12",
        "     three",
        "     four",
    ]


def test_what_is_fixed_and_what_is_one_word_runs_over() -> None:
    layout = lay_out(COLUMNS, [(fixed("(1, 64, 56)"), "12")], 4)
    assert layout.lines((fixed("(1, 64, 56)"), "12")) == [["(1, 64, 56)", "  12"]]
    assert table(COLUMNS, [("indivisible", "12")], 4)[1].startswith("indivisible")


def test_columns_yield_in_turn() -> None:
    columns = (Column("a", yields=2), Column("b", yields=1))
    layout = lay_out(columns, [("aa aa aa", "bb bb bb")], 15)
    assert layout.widths == (8, 5)


def test_what_takes_two_columns_is_counted_as_two() -> None:
    assert (columns_of("跳过"), columns_of("e\u0301"), columns_of("64→32 ● ◆ × ×")) == (4, 1, 13)
    assert table(COLUMNS, [("跳过", "1"), ("skip", "22")], 80) == [
        "name  size",
        "跳过     1",
        "skip    22",
    ]


def test_no_cell_reaches_the_terminal_as_a_command() -> None:
    assert table(COLUMNS, [("a\x1b[31m\nb", "1")], 80)[1] == r"a\x1b[31m\nb     1"
