"""Text that came from elsewhere and must be writable everywhere."""

from __future__ import annotations


def encodable(text: str) -> str:
    """``text`` with what UTF-8 can't hold (lone surrogates) written as escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
