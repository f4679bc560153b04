"""Filming evaluations, driven by hand."""

from __future__ import annotations

from pathlib import Path

import gymnasium
import numpy as np
import pytest
from msgspec.structs import replace

from fast_core.config import EnvironmentConfig, EvaluationConfig, MetricsConfig, RolloutConfig
from fast_core.envs.instance import Instance
from fast_core.envs.trying.probe import probe
from fast_core.messages import Evaluate, Evaluated
from fast_core.monitor.screens.picture import smaller
from fast_core.nodes.act.evaluator import EvaluatorNode
from fast_core.nodes.act.filming import GIF_WIDTH
from tests.envs.driver import toy
from tests.envs.toy import Lone
from tests.nodes.stage import Stage, make_config

imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg")
HERE = "tests.nodes.act.test_filming"
EVALUATION = EvaluationConfig(episodes=3, envs=2, video_every=2, videos_kept=2)


class Painted(gymnasium.wrappers.TransformObservation):  # type: ignore[type-arg]
    """CartPole in cheap pictures; leaves a mark for each environment by its render mode."""

    def __init__(self, render_mode: str | None = None) -> None:
        env = gymnasium.make("CartPole-v1", render_mode=render_mode)
        super().__init__(env, lambda obs: obs, env.observation_space)

    def render(self) -> np.ndarray:  # type: ignore[override]
        return np.full((20, 30, 3), 200, np.uint8)


PAINTED = EnvironmentConfig(id=f"{HERE}:Painted")


def filming(folder: Path, evaluation: EvaluationConfig) -> tuple[Stage, EvaluatorNode]:
    stage = Stage(folder, make_config(environment=PAINTED, evaluation=evaluation))
    return stage, stage.start(EvaluatorNode, "evaluator-0")


def evaluated(stage: Stage, node: EvaluatorNode, version: int) -> Evaluated:
    stage.snapshot(version)
    return stage.evaluate(node, version)


def test_every_second_evaluation_is_filmed_and_the_newest_films_are_kept(tmp_path: Path) -> None:
    stage, node = filming(tmp_path, EVALUATION)
    events = [evaluated(stage, node, version) for version in range(1, 8)]
    films = [event.video for event in events]
    assert films == ["" if n % 2 else f"videos/evaluation-{10 * n:012d}.mp4" for n in range(1, 8)]
    left = {path.name for path in (tmp_path / "videos").iterdir()}
    kept = [f"evaluation-{steps:012d}" for steps in (40, 60)]
    assert left == {f"{name}{suffix}" for name in kept for suffix in (".mp4", ".gif")}
    frames, _ = imageio_ffmpeg.count_frames_and_secs(str(tmp_path / films[5]))
    assert frames == events[5].lengths[0] + 1


def test_results_are_those_without_films(tmp_path: Path) -> None:
    results = []
    for every in (1, None):
        folder = tmp_path / str(every)
        stage, node = filming(folder, replace(EVALUATION, video_every=every))
        results.append([evaluated(stage, node, version).played for version in (1, 2)])
    assert results[0] == results[1]


def test_no_gif_is_made_where_there_is_no_tensorboard(tmp_path: Path) -> None:
    config = make_config(
        environment=PAINTED,
        evaluation=replace(EVALUATION, video_every=1),
        metrics=MetricsConfig(tensorboard=False),
    )
    stage = Stage(tmp_path, config)
    node = stage.start(EvaluatorNode, "evaluator-0")
    evaluated(stage, node, 1)
    assert [path.suffix for path in (tmp_path / "videos").iterdir()] == [".mp4"]


def test_drawing_that_fails_costs_the_film_alone_and_is_told_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    stage, node = filming(tmp_path, replace(EVALUATION, video_every=1))
    before = evaluated(stage, node, 1)
    with monkeypatch.context() as patch:
        patch.setattr(Instance, "render", lambda _: "no picture")
        events = [evaluated(stage, node, version) for version in (2, 3)]
    after = evaluated(stage, node, 4)
    assert [event.video for event in events] == ["", ""]
    assert all(event.played == before.played for event in (*events, after))
    assert after.video
    assert caplog.text.count("no video of an evaluation") == 1
    assert {path.stem for path in (tmp_path / "videos").iterdir()} == {
        "evaluation-000000000010",
        "evaluation-000000000040",
    }


def test_run_that_ends_meanwhile_leaves_no_half_film(tmp_path: Path) -> None:
    stage, node = filming(tmp_path, replace(EVALUATION, video_every=1))
    stage.snapshot(1)
    node.handle(Evaluate(1, 1, 10, 3))
    assert node._filming.step()
    node.close()
    assert list((tmp_path / "videos").iterdir()) == []


def test_environment_that_can_be_there_once_is_filmed_too(tmp_path: Path) -> None:
    evaluation = replace(EVALUATION, envs=1, video_every=2)
    config = make_config(environment=toy("Lone"), evaluation=evaluation)
    config = replace(config, rollout=RolloutConfig(shards=2, envs_per_shard=1, steps=8))
    spec = probe(config.environment, 0)
    assert spec.one_per_process
    stage = Stage(tmp_path, config, environment=spec)
    node = stage.start(EvaluatorNode, "evaluator-0")
    events = [evaluated(stage, node, version) for version in (1, 2, 3, 4)]
    node.close()
    assert [bool(event.video) for event in events] == [False, True, False, True]
    assert all(event.lengths == (5, 5, 5) for event in events)
    assert Lone.there == []


@pytest.mark.parametrize(
    ("size", "expected"), [((20, 30), (20, 30)), ((400, 600), (200, 300)), ((90, 961), (22, 240))]
)
def test_gif_is_no_wider_than_tensorboard_shows(
    size: tuple[int, int], expected: tuple[int, int]
) -> None:
    frame = np.zeros((*size, 3), np.uint8)
    frame[::2] = 100
    small = smaller(frame, GIF_WIDTH)
    assert small.shape == (*expected, 3)
    assert abs(float(small.mean()) - 50) < 1
