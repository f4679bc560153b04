"""Text that came from elsewhere."""

from __future__ import annotations

import json

from fast_core.system.text import MOST_TEXT, MOST_TRACEBACK, error_text, harmless, traceback_text


def test_text_of_an_error_can_be_written_whatever_it_names() -> None:
    assert error_text(OSError("no file \udcff")) == "OSError: no file \\udcff"


def test_what_would_steer_a_terminal_is_shown_as_escapes() -> None:
    assert harmless("a é 漢\tb\nc") == "a é 漢\tb\nc"
    assert harmless("\x1b]0;x\x07\x9b2J\r\u202e\U000e0001\udcff") == (
        "\\u001b]0;x\\u0007\\u009b2J\\u000d\\u202e\\udb40\\udc01\\udcff"
    )
    said = {"a": "\x9b \U000e0001"}
    assert json.loads(harmless(json.dumps(said, ensure_ascii=False))) == said


def test_long_text_of_an_error_keeps_its_beginning_and_its_end() -> None:
    error = ValueError("head " + "x" * 5_000_000 + " tail")
    text = error_text(error)
    assert text.startswith("ValueError: head x") and text.endswith("x tail")
    assert f" [... {5_000_022 - MOST_TEXT:,} characters left out ...] " in text
    try:
        raise RuntimeError from error
    except RuntimeError as raised:
        told = traceback_text(raised)
    assert told.startswith("ValueError: head x") and "in test_long_text" in told
    assert len(told) < MOST_TRACEBACK + 100 and len(text) < MOST_TEXT + 100
    assert error_text(ValueError("short")) == "ValueError: short"
