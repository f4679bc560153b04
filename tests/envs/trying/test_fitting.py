from __future__ import annotations

import sys

import pytest

from fast_core.config import EnvironmentConfig
from fast_core.envs.instance import Instance
from fast_core.envs.trying.fitting import probe_all
from fast_core.envs.trying.probe import probe
from fast_core.errors import ConfigError
from tests.envs.driver import toy

CARTPOLE = EnvironmentConfig(id="CartPole-v1")
PENDULUM = EnvironmentConfig(id="Pendulum-v1")


def test_description_is_that_of_the_environment_of_training() -> None:
    short = EnvironmentConfig(id="CartPole-v1", kwargs={"max_episode_steps": 7})
    assert probe_all(CARTPOLE, {"short": short}, 0) == probe(CARTPOLE, 0)


@pytest.mark.parametrize(
    ("training", "other", "words"),
    [
        (
            CARTPOLE,
            PENDULUM,
            [
                "evaluation.environments.windy must have the spaces of `environment`",
                "'Pendulum-v1' has observations box [3] of float32, not box [4] of float32",
                "actions box [1] of float32 from -2 to 2, not discrete 0 to 1",
            ],
        ),
        (toy("Counter"), CARTPOLE, ["not discrete 1 to 3"]),
        (CARTPOLE, EnvironmentConfig(id="CartPole-v1", frame_stack=2), ["box [2, 4] of float32"]),
        (
            CARTPOLE,
            EnvironmentConfig(id="CartPole-v1", kwargs={"gain": 2}),
            ["evaluation.environments.windy: environment.kwargs don't fit 'CartPole-v1'", "gain"],
        ),
        (CARTPOLE, EnvironmentConfig(id="CartPool-v1"), ["windy: environment.id", "Nearest"]),
    ],
)
def test_environment_that_does_not_fit_is_refused(
    training: EnvironmentConfig, other: EnvironmentConfig, words: list[str]
) -> None:
    with pytest.raises(ConfigError) as error:
        probe_all(training, {"windy": other}, 0)
    for word in words:
        assert word in str(error.value)


def test_environment_that_is_to_be_filmed_is_drawn_once() -> None:
    pytest.importorskip("imageio_ffmpeg")
    assert probe_all(CARTPOLE, {}, 0, filmed=True) == probe(CARTPOLE, 0)


def test_environment_without_pictures_is_refused_where_it_is_to_be_filmed() -> None:
    pytest.importorskip("imageio_ffmpeg")
    with pytest.raises(ConfigError, match=r"evaluation.video_every needs pictures: .*rgb_array"):
        probe_all(toy("Counter"), {}, 0, filmed=True)


def test_environment_that_fails_to_draw_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("imageio_ffmpeg")
    monkeypatch.setattr(Instance, "render", lambda _: "no picture")
    with pytest.raises(ConfigError, match=r"video_every needs pictures: .*must return an image"):
        probe_all(CARTPOLE, {}, 0, filmed=True)


def test_missing_encoder_is_refused_with_the_line_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(ConfigError, match=r"video_every needs ffmpeg.*pip install -e '.\[video\]'"):
        probe_all(CARTPOLE, {}, 0, filmed=True)
