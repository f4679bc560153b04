"""Which cases of a test are in the quick form, that is `pytest`, and which wait for `-m slow`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def slow_but(quick: Iterable[Any], cases: Iterable[Any]) -> list[Any]:
    """The cases for ``parametrize``, of which all but those of ``quick`` are slow."""
    chosen, all_cases = list(quick), list(cases)
    unknown = [case for case in chosen if case not in all_cases]
    assert not unknown, f"no such case: {unknown}"
    return [case if case in chosen else _slow(case) for case in all_cases]


def _slow(case: Any) -> Any:
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
