"""Text that came from elsewhere."""

from __future__ import annotations

import json

from fast_core.system.text import error_text, harmless


def test_text_of_an_error_can_be_written_whatever_it_names() -> None:
    assert error_text(OSError("no file \udcff")) == "OSError: no file \\udcff"


def test_what_would_steer_a_terminal_is_shown_as_escapes() -> None:
    assert harmless("a é 漢\tb\nc") == "a é 漢\tb\nc"
    assert harmless("\x1b]0;x\x07\x9b2J\r\u202e\U000e0001\udcff") == (
        "\\u001b]0;x\\u0007\\u009b2J\\u000d\\u202e\\udb40\\udc01\\udcff"
    )
    said = {"a": "\x9b \U000e0001"}
    assert json.loads(harmless(json.dumps(said, ensure_ascii=False))) == said
