"""The page in a real browser, against a server that only speaks its protocol."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.dashboard.conftest import Visiting
from tests.dashboard.stub import Run, Stub
from tests.forms import slow_but

slow = pytest.mark.slow
LOOKS = [(width, theme) for width in (1280, 390) for theme in ("dark", "light")]


@pytest.fixture
def run() -> Run:
    return Run()


@pytest.fixture
def stub(run: Run) -> Iterator[Stub]:
    with Stub(run) as server:
        yield server


def test_tiles_move_and_charts_draw_without_a_word_in_the_console(
    stub: Stub, visit: Visiting
) -> None:
    page = visit(stub.url)
    page.until(lambda: len(page.drawn()) == 9 and min(page.drawn()[:8]) >= 1, "eight pictures")
    before = page.pixels()[:8]
    assert len(set(before)) == 8

    def changed() -> bool:
        return all(a != b for a, b in zip(before, page.pixels(), strict=False))

    page.until(changed, "eight other pictures")
    page.until(lambda: {"return", "evaluation"} <= page.points().keys(), "charts")
    lines = page.points()
    assert len(lines["return"]) == 4
    assert min(lines["return"]) > 100
    assert page.said == []
