"""`fastloop eval --video` and `play` as processes: what they leave behind."""

from __future__ import annotations

import json
import signal
import time

import pytest

from tests.forms import slow_but
from tests.process.harness import TOY, Launched, Workplace, eventually

pytestmark = pytest.mark.process

CARTPOLE = {
    **TOY,
    "environment": {"id": "CartPole-v1"},
    "evaluation": {"every_env_steps": None, "episodes": 3, "envs": 2},
    "checkpoint": {},
    "stop": {"env_steps": 64},
}
UNSEEN = {"SDL_VIDEODRIVER": "dummy", "DISPLAY": "", "WAYLAND_DISPLAY": ""}


@pytest.fixture
def trained(workplace: Workplace) -> Launched:
    launched = workplace.launch(config=CARTPOLE).done()
    return launched


def command(workplace: Workplace, trained: Launched, *words: str) -> Launched:
    return workplace.fastloop(
        [words[0], str(trained.run), *words[1:]], trained.home, environment=UNSEEN
    )


def test_video_is_written_and_the_mean_is_that_without(
    workplace: Workplace, trained: Launched
) -> None:
    pytest.importorskip("imageio_ffmpeg")
    found = []
    for options in ((), ("--video", "play.mp4")):
        launched = command(workplace, trained, "eval", *options).done()
        found.append(json.loads(launched.screen.splitlines()[-1]))
        launched.assert_gone()
    assert found[1].pop("video") == str(trained.home / "play.mp4")
    assert found[0] == found[1]
    assert (trained.home / "play.mp4").stat().st_size > 1000


@pytest.mark.parametrize("pauses_s", slow_but([[0.25, 0.0]], [[0.0], [0.25, 0.0]]))
def test_interrupted_video_leaves_nothing(
    workplace: Workplace, trained: Launched, pauses_s: list[float]
) -> None:
    pytest.importorskip("imageio_ffmpeg")
    launched = command(workplace, trained, "eval", "--video", "play.mp4", "--episodes", "100000")
    eventually(lambda: list(trained.home.glob(".play.*.mp4")), f"a video\n{launched.screen}")
    for pause_s in pauses_s:  # beyond what counts as the same press
        launched.signal(signal.SIGINT)
        time.sleep(pause_s)
    assert launched.wait() == 130, launched.screen
    assert "Traceback" not in launched.screen
    assert not list(trained.home.rglob("*.mp4"))
    launched.assert_gone()


def test_watching_ends_with_an_interrupt(workplace: Workplace, trained: Launched) -> None:
    pytest.importorskip("pygame")
    launched = command(workplace, trained, "play")
    eventually(lambda: "episode 0: return" in launched.screen, f"an episode\n{launched.screen}")
    launched.signal(signal.SIGINT, group=True)
    assert launched.wait() == 130
    assert "Traceback" not in launched.screen
    launched.assert_gone()
