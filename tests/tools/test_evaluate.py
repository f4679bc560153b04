"""Evaluating a run: which policy, which episodes, and that watching changes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fast_core.config.algorithms import algorithm_config_type
from fast_core.config.file import dumps, loads
from fast_core.envs.drawing.video_file import as_frame
from fast_core.envs.playing.evaluation import make_runner
from fast_core.errors import CheckpointError, ConfigError, EnvironmentFailed
from fast_core.monitor.run_directory import RunDirectory
from fast_core.policy import load_policy
from fast_core.policy.actor import Actor
from fast_core.tools import evaluate
from fast_core.tools.evaluate import evaluate_run
from tests.launcher.trained_run import DRAWING, ENVS, EPISODES, make_trained
from tests.nodes.stage import make_config

Result = dict[str, Any]


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return make_trained(tmp_path, checkpoints=2)


class FakeVideo:
    """Stands for a video file and keeps what it was given."""

    def __init__(self, path: Path) -> None:
        self.frames: list[np.ndarray] = []
        self.fps: list[float] = []
        self.ended = ""
        made.append(self)

    def add(self, drawn: object, fps: float) -> None:
        self.frames.append(as_frame(drawn))
        self.fps.append(fps)

    def finish(self) -> None:
        self.ended += "finish "

    def close(self) -> None:
        self.ended += "close "


made: list[FakeVideo] = []


@pytest.fixture
def video(monkeypatch: pytest.MonkeyPatch) -> list[FakeVideo]:
    made.clear()
    monkeypatch.setattr(evaluate, "VideoFile", FakeVideo)
    return made


def evaluated(
    capsys: pytest.CaptureFixture[str], run: RunDirectory, *given: Any, **options: Any
) -> Result:
    assert evaluate_run(run.path, *(given or (None,)), **options) == 0
    result: Result = json.loads(capsys.readouterr().out)
    return result


def test_best_policy_plays_fresh_episodes_or_those_of_the_runs_evaluations(
    run: RunDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    result = evaluated(capsys, run)
    assert (result["policy"], result["version"], result["episodes"]) == ("best", 7, EPISODES)
    assert (result["seed"], result["repeat"], result["explore"]) == (0, False, False)
    assert "video" not in result
    assert evaluated(capsys, run) == result
    assert evaluated(capsys, run, seed=5)["return_mean"] != result["return_mean"]
    config = make_config().environment
    own = make_runner(
        msgspec.structs.replace(config, id=DRAWING), episodes=EPISODES, envs=ENVS, seed=0
    )
    policy = load_policy(run.path)
    while own.step(Actor(policy.config, policy.environment, policy.make_acting(), ENVS)):
        pass
    assert evaluated(capsys, run, repeat=True)["return_mean"] == np.mean(own.returns)
    assert result["return_mean"] != np.mean(own.returns)
    with pytest.raises(ConfigError, match="--seed 5 plays others"):
        evaluate_run(run.path, None, repeat=True, seed=5)


@pytest.mark.parametrize("environment", [DRAWING, "CartPole-v1"])
@pytest.mark.parametrize("explore", [False, True])
def test_watched_evaluation_equals_the_one_that_nobody_watches(
    tmp_path: Path,
    environment: str,
    explore: bool,
    video: list[FakeVideo],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With 2 environments of 5 episodes, also for those that don't come out even."""
    run = make_trained(tmp_path, environment)
    unseen = evaluated(capsys, run, explore=explore)
    seen = evaluated(capsys, run, explore=explore, video=Path("x.mp4"))
    assert seen.pop("video") == str(Path("x.mp4").absolute())
    assert seen == unseen
    frames = video[0].frames
    # each reset and each step
    assert len(frames) == EPISODES + round(unseen["length_mean"] * EPISODES)
    assert video[0].ended == "finish close close "


def test_frames_come_in_the_order_of_the_episodes(
    run: RunDirectory, video: list[FakeVideo], capsys: pytest.CaptureFixture[str]
) -> None:
    evaluated(capsys, run, 2, video=Path("x.mp4"))
    steps = [int(frame[0, 0, 0]) for frame in video[0].frames]
    first = steps.index(0, 1)
    assert steps == [*range(first), *range(len(steps) - first)]
    assert set(video[0].fps) == {25.0}


def test_exploring_is_repeatable_and_differs(
    run: RunDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [evaluated(capsys, run, explore=True, seed=seed) for seed in (1, 1, 2)]
    assert found[0] == found[1] != found[2]
    assert found[0]["return_mean"] != evaluated(capsys, run, seed=1)["return_mean"]


def test_slow_evaluation_says_how_far_it_is(
    run: RunDirectory, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluate, "TELL_S", 0.0)
    assert evaluate_run(run.path, None) == 0
    told = capsys.readouterr().err.splitlines()
    assert told[0] == f"0 of {EPISODES} episodes are over, {ENVS} steps so far"
    assert told[-1].startswith(f"{EPISODES - 1} of ")
    monkeypatch.setattr(evaluate, "TELL_S", 60.0)
    assert evaluate_run(run.path, None) == 0
    assert capsys.readouterr().err == ""


def test_named_environment_is_played_in_by_its_name(
    run: RunDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    wet = "evaluation.environments.wet.frame_skip=2"
    text = run.config.read_text()
    run.write_config(dumps(loads(text, [wet], algorithm_config_type, source="run")))
    there = evaluated(capsys, run, environment="wet")
    assert there.pop("environment") == "wet"
    assert there == evaluated(capsys, run, overrides=["environment.frame_skip=2"])
    assert there != evaluated(capsys, run)
    slower = [wet.replace("2", "3")]
    assert (
        evaluated(capsys, run, environment="wet", overrides=slower)["return_mean"]
        == (evaluated(capsys, run, overrides=["environment.frame_skip=3"])["return_mean"])
    )
    with pytest.raises(ConfigError, match=r"changes nothing here.*in `environment`.*ment wet`"):
        evaluate_run(run.path, None, overrides=slower)
    with pytest.raises(ConfigError, match=r"no 'dry'\. It has 'wet'"):
        evaluate_run(run.path, None, environment="dry")
    dry = ["evaluation.environments.dry.frame_skip=2"]
    assert evaluated(capsys, run, environment="dry", overrides=dry)["environment"] == "dry"


@pytest.mark.parametrize(
    ("checkpoint", "policy", "version"),
    [
        (None, "best", 7),
        ("best", "best", 7),
        ("newest", "newest", 20),
        ("000000000001", "000000000001", 10),
        ("some/where/checkpoints/000000000002", "000000000002", 20),
    ],
)
def test_checkpoint_is_chosen_by_name(
    run: RunDirectory,
    checkpoint: str | None,
    policy: str,
    version: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = evaluated(capsys, run, checkpoint=checkpoint)
    assert (result["policy"], result["version"]) == (policy, version)


def test_newest_is_taken_where_no_policy_is_best(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_trained(tmp_path, best=False)
    assert evaluated(capsys, run)["policy"] == "newest"
    with pytest.raises(CheckpointError, match=r"keeps no best policy.*It has 000000000001"):
        evaluate_run(run.path, None, checkpoint="best")


def test_missing_checkpoint_is_told_with_those_there_are(run: RunDirectory) -> None:
    with pytest.raises(CheckpointError, match=r"'7'.*000000000001, 000000000002, best"):
        evaluate_run(run.path, None, checkpoint="7")


def test_damaged_checkpoint_is_refused_by_name_and_passed_over_by_age(
    run: RunDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    (run.checkpoints / "000000000002" / "learner.msgpack").write_bytes(b"x")
    with pytest.raises(CheckpointError, match="damaged"):
        evaluate_run(run.path, None, checkpoint="000000000002")
    assert evaluated(capsys, run, checkpoint="newest")["version"] == 10


def test_window_without_a_screen_is_refused(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DASH-04."""
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match=r"DISPLAY.*--video FILE"):
        evaluate_run(run.path, None, render=True)


def test_window_and_video_at_once_are_refused(run: RunDirectory) -> None:
    with pytest.raises(ConfigError, match="at once"):
        evaluate_run(run.path, None, render=True, video=Path("x.mp4"))


def test_environment_without_pictures_says_what_it_has(
    tmp_path: Path, video: list[FakeVideo], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_trained(tmp_path)
    monkeypatch.setattr("tests.launcher.trained_run.Drawing.metadata", {"render_modes": ["ansi"]})
    with pytest.raises(
        ConfigError, match=r"no render mode 'rgb_array'; it has 'ansi'.*--record FILE"
    ):
        evaluate_run(run.path, None, video=Path("x.mp4"))


def test_environment_that_fails_to_draw_is_told_as_that(
    tmp_path: Path, video: list[FakeVideo], monkeypatch: pytest.MonkeyPatch
) -> None:
    """DASH-04."""
    run = make_trained(tmp_path)
    text = run.config.read_text().replace("kwargs: {}", "kwargs: {breaks: true}")
    run.config.write_text(text)
    with pytest.raises(
        EnvironmentFailed, match=r"no context \(while drawing, render mode 'rgb_array'\)\.$"
    ):
        evaluate_run(run.path, None, video=Path("x.mp4"))
    assert video[0].ended == "close close "
