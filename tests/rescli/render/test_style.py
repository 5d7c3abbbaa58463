from __future__ import annotations

from rescli.render.style import Style, fixed, visible, wrapped


def test_arrows_are_drawn_in_the_characters_of_the_stream() -> None:
    assert Style().arrows("64 -> 32 k3") == "64→32 k3"
    assert Style(ascii=True).arrows("64 -> 32 k3") == "64->32 k3"
    assert (Style().arrows("2 x Gate k3x5"), Style(ascii=True).arrows("2 x Gate")) == (
        "2 × Gate k3x5",
        "2 x Gate",
    )
    assert (Style(ascii=True).left, Style(ascii=True).right, Style(ascii=True).at_least) == ("<-", "->", ">=")


def test_nothing_is_painted_without_colour_and_empty_space_never() -> None:
    assert Style().paint("text", "bold") == "text"
    assert Style(color=True).paint("text", "error") == "\x1b[1;31mtext\x1b[0m"
    assert Style(color=True).paint("  ", "error") == "  "
    assert Style(color=True).paint_net(" ", 1) == " "
    assert Style(color=True).paint_net("│", 0) == Style(color=True).paint_net("│", 8) == "\x1b[36m│\x1b[0m"


def test_text_is_broken_between_words_and_never_inside_what_is_fixed() -> None:
    text = f"output {fixed('(8, 64)')} of-a layer"
    assert wrapped(text, 10, "  ") == ["output", "  (8, 64)", "  of-a", "  layer"]
    assert wrapped("indivisible", 3) == ["indivisible"]
    assert wrapped("", 10) == [""]


def test_what_a_terminal_would_obey_is_written_as_an_escape() -> None:
    assert visible("größe 跳过") == "größe 跳过"
    assert visible("a\x1b[2J\r\n\t\u202e\ud800\x9b") == r"a\x1b[2J\r\n\t\u202e\ud800\x9b"
    assert visible(fixed("(8, 64)\x07")) == fixed("(8,") + fixed(" 64)") + r"\x07"
    assert wrapped("a \x1b[2Jb\nc", 80) == [r"a \x1b[2Jb c"]
