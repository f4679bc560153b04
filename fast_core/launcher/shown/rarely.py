"""Counts that are said ever more rarely."""

from __future__ import annotations


def more_digits(before: int, now: int) -> bool:
    """Whether it is time to say a count again: at the first, then ten times more rarely."""
    return before == 0 or len(str(before)) < len(str(now))
