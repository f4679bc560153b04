"""Text that came from elsewhere and must be writable everywhere."""

from __future__ import annotations


def error_text(error: BaseException) -> str:
    """Type and message of ``error``, as a traceback ends; one that can't tell its own included."""
    try:
        text = str(error)
    except BaseException:  # a user's error may raise anything
        text = "<its text can't be made>"
    return encodable(f"{type(error).__name__}: {text}")


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
