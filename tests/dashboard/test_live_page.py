"""The page of real runs, in a real browser."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from fast_core.monitor.screens.access import TOKEN
from fast_core.monitor.screens.served import read_served
from tests.dashboard.browser import ELSEWHERE, Visit
from tests.dashboard.conftest import Visiting
from tests.process.harness import Launched, Workplace, eventually

pytestmark = [pytest.mark.slow, pytest.mark.process]
SECRET = "a-token-of-this-test-alone"
EIGHT: dict[str, Any] = {
    "name": "eight",
    "seed": 7,
    "environment": {"id": "CartPole-v1"},
    "rollout": {"shards": 8, "envs_per_shard": 1, "steps": 32},
    "algorithm": {"name": "ppo", "minibatch_size": 64, "epochs": 1},
    "nodes": {"env": {"count": 2}},
    "evaluation": {"every_env_steps": 2048, "episodes": 2},
    "checkpoint": {"every_updates": None},
    "metrics": {"tensorboard": False, "interval_s": 0.2},
    "dashboard": {"enabled": True, "port": 0, "fps": 5, "cpu_share": 0.5},
    "diagnostics": {"delay_ms": 20},  # the run needs few steps, and its page the processor
    "stop": {"time_s": 600},
}


@pytest.fixture(scope="module")
def eight() -> Iterator[Launched]:
    """A run of eight CartPoles whose page needs a token."""
    place = Workplace()
    yield place.launch(config=EIGHT, environment={TOKEN: SECRET})
    place.close()


def address(launched: Launched) -> str:
    """Where the run serves its page."""

    def served() -> Any:
        found = list((launched.home / "runs").glob("*/*/dashboard.json"))
        return read_served(found[0]) if found else None

    return str(eventually(served, f"a page\n{launched.screen}").url)


def test_page_needs_its_token_and_its_own_name(eight: Launched, visit: Visiting) -> None:
    url = address(eight)
    page = visit(url, charts=False)
    assert "token" in page.text("body")
    assert page.page.goto(url + "api/state").status == 401
    elsewhere = url.replace("127.0.0.1", ELSEWHERE)
    assert page.page.goto(f"{elsewhere}?token={SECRET}").status == 421
    page.go(f"{url}?token={SECRET}")
    assert "token" not in page.page.url  # it is in a cookie now, not in the history
    page.until(lambda: page.text("#connection") == "live", "the page, with its token")


def test_eight_environments_are_watched(eight: Launched, visit: Visiting, tmp_path: Path) -> None:
    page = visit(f"{address(eight)}?token={SECRET}")
    page.until(lambda: len(page.drawn()) == 9 and min(page.drawn()[:8]) >= 1, "eight pictures")
    before = page.pixels()[:8]

    def changed() -> bool:
        return all(old != new for old, new in zip(before, page.pixels(), strict=False))

    page.until(changed, "eight other pictures")
    page.until(lambda: {"return", "evaluation"} <= page.points().keys(), "charts")
    page.until(lambda: len(page.points()["return"]) == 4, "the means")
    assert page.page.locator("#nodes > li").count() >= 5
    page.page.keyboard.press("3")
    page.page.keyboard.press("Enter")
    for kind in ("rgb", "obs"):
        page.page.locator(f"#large-{kind} canvas[data-drawn]").wait_for()
    page.page.locator("[data-figure=value]").wait_for()
    assert page.text("[data-figure=probabilities] .now-list").count("action") == 2
    print(f"milliseconds from taken to drawn, by tile: {page.ages_ms()}")
    for form, begins in (("gif", b"GIF89a"), ("mp4", b"ftyp")):
        page.page.locator("#clip-format").select_option(form)
        with page.page.expect_download() as download:
            page.page.locator("#clip").click()
        path = tmp_path / f"clip.{form}"
        download.value.save_as(path)
        assert begins in path.read_bytes()[:12]
    with Image.open(tmp_path / "clip.gif") as clip:
        assert getattr(clip, "n_frames", 1) > 1
    assert page.said == []


def test_page_outlives_its_server_and_tells_the_end(eight: Launched, visit: Visiting) -> None:
    """The last one, which ends the run."""
    page = visit(f"{address(eight)}?token={SECRET}")
    page.until(lambda: page.points().get("return"), "a chart")
    page.until(lambda: page.points()["return"][0] > 3, "some rows")
    recover(page, eight)
    eight.signal(signal.SIGINT)
    page.until(lambda: "The run has ended" in page.text("#banner"), "the end")
    page.until(lambda: "fastloop watch" in page.text("#banner"), "what to do then")
    assert "ended" in page.text("[data-tile='0'] .state")
    eight.wait()
    eight.assert_gone()


def recover(page: Visit, launched: Launched) -> None:
    """Kill the page's node, and wait until the page is itself again."""
    rows, drawn = page.points()["return"][0], max(page.drawn())
    os.kill(launched.node("dashboard"), signal.SIGKILL)
    page.until(lambda: page.page.locator("#connection[data-state=lost]").count(), "the loss")
    page.until(lambda: page.text("#connection") == "live", "the way back")
    page.until(lambda: page.points()["return"][0] >= rows, "the history")
    page.until(lambda: "dashboard is gone" in page.text("#events"), "what was decided before")
    page.until(lambda: max(page.drawn()) > drawn, "pictures")
