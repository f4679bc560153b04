"""Demonstrations leave nothing behind."""

from __future__ import annotations

import pytest

from tests.process.harness import Workplace

pytestmark = pytest.mark.process


@pytest.mark.slow
@pytest.mark.parametrize("kept", [False, True])
def test_screens_serve_a_page_and_are_gone_afterwards(workplace: Workplace, kept: bool) -> None:
    pytest.importorskip("uvicorn")
    given = ["--env", "CartPole-v1", "--tiles", "3", "--seconds", "2", "--port", "0"]
    keep = ["--keep", "here"] if kept else []
    shown = workplace.start(["-m", "fast_core.cli", "demo", "screens", *given, *keep])
    assert shown.wait(60) == 0, shown.screen
    assert "the page of this run: http://127.0.0.1:" in shown.screen
    assert shown.leftovers() == []
    folders = {path.name for path in shown.home.iterdir() if path.is_dir()}
    assert folders == ({"here"} if kept else set())
