from __future__ import annotations

from rescli.render.style import Style, fixed, wrapped


def test_arrows_are_drawn_in_the_characters_of_the_stream() -> None:
    assert Style().arrows("64 -> 32 k3") == "64→32 k3"
    assert Style(ascii=True).arrows("64 -> 32 k3") == "64->32 k3"
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
