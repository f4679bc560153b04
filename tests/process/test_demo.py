"""Demonstrations and comparisons leave nothing behind."""

from __future__ import annotations

import json

import pytest

from tests.process.harness import Workplace

pytestmark = pytest.mark.process


@pytest.mark.slow
@pytest.mark.parametrize("kept", [False, True])
def test_screens_serve_a_page_and_are_gone_afterwards(workplace: Workplace, kept: bool) -> None:
    pytest.importorskip("uvicorn")
    given = ["--env", "CartPole-v1", "--tiles", "3", "--seconds", "2", "--port", "0"]
    keep = ["--keep", "here"] if kept else []
    shown = workplace.start(["-m", "fast_core.tools.cli", "demo", "screens", *given, *keep]).done()
    assert "the page of this run: http://127.0.0.1:" in shown.screen
    assert ("fastloop watch" in shown.screen) is kept
    assert "fastloop-screens-" not in shown.screen, "a folder that is gone"
    shown.assert_gone()
    folders = {path.name for path in shown.home.iterdir() if path.is_dir()}
    assert folders == ({"here"} if kept else set())


@pytest.mark.slow
def test_one_worker_is_compared_with_two(workplace: Workplace) -> None:
    given = ["--env", "CartPole-v1", "--workers", "2", "--quick", "--seconds", "0.5", "--json"]
    compared = workplace.start(["-m", "fast_core.tools.cli", "bench", "parallel", *given]).done(
        within_s=90
    )
    found = json.loads(compared.screen.splitlines()[-1])
    assert (found["workers"], found["one"]["workers"], found["many"]["workers"]) == (2, 1, 2)
    for side in (found["one"], found["many"]):
        assert side["env_steps_per_s"] > 0 and side["episodes_per_hour"] > 0
        assert side["memory_bytes"] > 30e6 and side["cores_busy"] > 0
    compared.assert_gone()
    assert [path for path in compared.home.iterdir() if path.is_dir()] == []
