"""Text that came from elsewhere."""

from __future__ import annotations

from fast_core.system.text import error_text


def test_text_of_an_error_can_be_written_whatever_it_names() -> None:
    assert error_text(OSError("no file \udcff")) == "OSError: no file \\udcff"
