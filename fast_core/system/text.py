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
