"""How errors are worded at the terminal."""

from __future__ import annotations

import pytest

from rescli.cli.errors import error_text, show_traceback, write_error, write_fault
from rescli.errors import RescliError

ERROR = RescliError("no width", hint="give --set width=4", details="Traceback:\n  line 1\n")


def test_an_error_is_message_details_and_hint() -> None:
    assert error_text(ERROR) == "Error: no width\nTraceback:\n  line 1\nHint: give --set width=4"
    assert error_text(RescliError("no width")) == "Error: no width"


def test_colour_marks_the_first_word_alone() -> None:
    assert error_text(RescliError("no width"), color=True) == "\x1b[31;1mError:\x1b[0m no width"


def test_errors_go_to_stderr_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    write_error(RescliError("no width"), {})
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "Error: no width\n")


def test_the_traceback_comes_first_if_it_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    token = show_traceback.set(True)
    try:
        with pytest.raises(RescliError) as caught:
            raise RescliError("no width") from ValueError("the cause")
        write_error(caught.value, {})
    finally:
        show_traceback.reset(token)
    err = capsys.readouterr().err
    assert err.startswith("ValueError: the cause\n")
    assert "test_errors.py" in err
    assert err.endswith("Error: no width\n")


def test_a_fault_of_ours_says_so_and_how_to_see_more(capsys: pytest.CaptureFixture[str]) -> None:
    write_fault(ZeroDivisionError("division by zero"))
    assert capsys.readouterr().err == (
        "Error: rescli failed on its own account: ZeroDivisionError: division by zero\n"
        "Hint: this is a fault of rescli, not of your input; --traceback shows where. "
        "Please report it with what `rescli env` prints.\n"
    )


def test_a_fault_with_its_traceback_does_not_offer_it_again(capsys: pytest.CaptureFixture[str]) -> None:
    token = show_traceback.set(True)
    try:
        write_fault(ZeroDivisionError("division by zero"))
    finally:
        show_traceback.reset(token)
    assert "--traceback" not in capsys.readouterr().err
