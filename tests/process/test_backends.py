"""Runs with environments that are not plain Gymnasium ones."""

from __future__ import annotations

from typing import Any

import pytest

from tests.process.harness import Workplace, digests

pytestmark = pytest.mark.process

TICKETS = 12

TASK: dict[str, Any] = {
    "name": "backend",
    "environment": {"id": "CartPole-v1", "backend": "envpool"},
    "rollout": {"shards": 2, "envs_per_shard": 4, "steps": 16},
    "algorithm": {"name": "ppo", "hidden_sizes": [8], "minibatch_size": 32, "epochs": 2},
    "evaluation": {"every_env_steps": 512, "episodes": 5, "envs": 2},
    "checkpoint": {"every_updates": None, "at_end": False},
    "metrics": {"tensorboard": False},
    "diagnostics": {"digests": True},
    "stop": {"env_steps": TICKETS * 2 * 4 * 16},
}
GAME: dict[str, Any] = TASK | {
    "environment": {
        "id": "ALE/Breakout-v5",
        "atari": {"terminal_on_life_loss": True, "screen_size": 36},
        "frame_stack": 2,
    },
    "rollout": {"shards": 2, "envs_per_shard": 2, "steps": 16},
    "algorithm": {"name": "ppo", "network": "mlp", "hidden_sizes": [8], "minibatch_size": 32},
    "evaluation": {"every_env_steps": None},
    "checkpoint": {"every_updates": 10, "at_end": True},
    "stop": {"env_steps": TICKETS * 2 * 2 * 16},
}


@pytest.mark.slow
def test_envpool_in_processes_equals_inline(workplace: Workplace) -> None:
    pytest.importorskip("envpool")
    found = []
    for given in ("mode=inline", "nodes.env.count=2"):
        launched = workplace.launch(given, config=TASK).done(within_s=90)
        found.append(digests(launched.run))
    assert sorted(found[0]) == list(range(TICKETS))
    assert found[0] == found[1]


@pytest.mark.slow
def test_cartpole_trains_alike_however_it_is_stepped(workplace: Workplace) -> None:
    found = []
    for backend in ("gymnasium", "gymnasium_vector", "tests.envs.own_backend:InPlace"):
        launched = workplace.launch(f"environment.backend={backend}", config=TASK).done(within_s=90)
        found.append(digests(launched.run))
    assert sorted(found[0]) == list(range(TICKETS))
    assert found[0] == found[1] == found[2]


def test_checkpoints_of_what_can_not_be_repeated_are_refused(workplace: Workplace) -> None:
    pytest.importorskip("envpool")
    launched = workplace.launch("checkpoint.at_end=true", config=TASK).ends(2)
    said = " ".join(launched.screen.split())
    assert "can't be repeated with environment.backend envpool" in said
    assert "Use environment.backend: gymnasium" in said


@pytest.mark.slow
def test_a_game_within_which_a_run_stops_goes_on_when_it_is_resumed(workplace: Workplace) -> None:
    pytest.importorskip("ale_py")
    pytest.importorskip("cv2")
    whole = workplace.launch(config=GAME).done(within_s=120)
    half = workplace.launch(f"stop.env_steps={TICKETS * 2 * 16}", config=GAME).done(within_s=120)
    resumed = workplace.resume(half, f"stop.env_steps={TICKETS * 2 * 2 * 16}").done(within_s=120)
    assert len(digests(whole.run)) == TICKETS
    assert digests(half.run) | digests(resumed.run) == digests(whole.run)


def test_environments_that_can_be_there_once_in_a_process(workplace: Workplace) -> None:
    """Probe, trials, env nodes and evaluator; a resume makes as many processes again."""
    lone = TASK | {
        "environment": {"id": "FastLoopTest/Lone-v0", "modules": ["tests.envs.toy"]},
        "rollout": {"shards": 3, "envs_per_shard": 1, "steps": 16},
        "evaluation": {"every_env_steps": 192, "episodes": 2, "envs": 1},
        "checkpoint": {"every_updates": None, "at_end": True},
        "stop": {"env_steps": 192},
    }
    first = workplace.launch(config=lone).done(within_s=90)
    workplace.resume(first, "stop.env_steps=384").done(within_s=90)
    assert sorted(digests(first.run)) == list(range(8))
    inline = workplace.launch("mode=inline", config=lone).ends(2)
    assert "mode is inline. Set it to process" in inline.screen.replace("\n", " ")
