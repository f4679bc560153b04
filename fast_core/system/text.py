"""Text that came from elsewhere and must be writable everywhere."""

from __future__ import annotations

import traceback
from types import TracebackType

MOST_TEXT = 8_000  # characters of an error's text; it is kept in several places of a run
MOST_TRACEBACK = 20_000


def error_text(error: BaseException) -> str:
    """Type and message of ``error``, as a traceback ends; one that can't tell its own included."""
    try:
        text = str(error)
    except BaseException:  # a user's error may raise anything
        text = "<its text can't be made>"
    return bounded(f"{type(error).__name__}: {text}")


def traceback_text(error: BaseException, since: TracebackType | None = None) -> str:
    """The traceback of ``error``, from a frame on, with what it came of."""
    lines = traceback.format_exception(type(error), error, since or error.__traceback__)
    return bounded("".join(lines), MOST_TRACEBACK)


def bounded(text: str, most: int = MOST_TEXT) -> str:
    """``text`` as it may be kept: its beginning and its end where it is long; encodable."""
    if (left_out := len(text) - most) > 0:
        head, tail = text[: most // 2], text[-most // 2 :]
        text = f"{head} [... {left_out:,} characters left out ...] {tail}"
    return encodable(text)


def encodable(text: str) -> str:
    """``text`` with what UTF-8 can't hold (lone surrogates) written as escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def harmless(text: str) -> str:
    """``text`` for a terminal: what would steer it is written as escapes; lines and tabs stay.

    The escapes are those of JSON, which stays the same JSON.
    """
    return "".join(
        char if char.isprintable() or char in "\n\t" else _escaped(char) for char in text
    )


def _escaped(char: str) -> str:
    units = memoryview(char.encode("utf-16-le", "surrogatepass")).cast("H")
    return "".join(f"\\u{unit:04x}" for unit in units)
