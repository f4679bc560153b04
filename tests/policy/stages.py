"""Policies of every kind as the evaluator node writes them, and what it did with them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fast_core.config import file as config_file
from fast_core.config.algorithms import algorithm_config_type
from fast_core.envs.trying.probe import probe
from fast_core.messages import Evaluate
from fast_core.nodes.act.evaluator import EvaluatorNode
from fast_core.policy.actor import Actor
from fast_core.policy.file import best_policy_path
from tests.envs import space_toys, toy  # noqa: F401, they register environments
from tests.nodes.stage import Stage, drain

KINDS = {
    "ppo": "environment: {id: CartPole-v1}\nalgorithm: {name: ppo, hidden_sizes: [8]}",
    "ppo box": "environment: {id: Pendulum-v1}\nalgorithm: {name: ppo, normalize_actions: true}",
    "first choice": "environment: {id: 'FastLoopTest/Counter-v0'}\nalgorithm: {name: dqn}",
    "recurrent": (
        "environment: {id: fastloop/Recall-v0, modules: [fast_core.clients.games.memory_task]}\n"
        "algorithm: {name: ppo, recurrent: lstm, recurrent_size: 6, hidden_sizes: [5]}"
    ),
    "pixels": (
        "environment: {id: fastloop/Drift-v0, modules: [fast_core.clients.games.drift_task],"
        " frame_stack: 3}\nalgorithm: {name: ppo}"
    ),
    "recurrent frames": (
        "environment: {id: CartPole-v1, frame_stack: 2}\n"
        "algorithm: {name: ppo, recurrent: gru, recurrent_size: 4, hidden_sizes: [5]}"
    ),
    "dict": "environment: {id: 'FastLoopTest/Robot-v0'}\nalgorithm: {name: ppo}",
    "mask": (
        "environment: {id: 'FastLoopTest/Doors-v0', action_mask: open}\nalgorithm: {name: ppo}"
    ),
    "info mask": (
        "environment: {id: 'FastLoopTest/Doors-v0', kwargs: {where: info},"
        " action_mask: info.doors}\nalgorithm: {name: dqn}"
    ),
    "own network": (
        "environment: {id: CartPole-v1}\n"
        "algorithm: {name: ppo, network: 'tests.algos.own_networks:Plain'}"
    ),
    "normalised sac": (
        "environment: {id: Pendulum-v1}\nalgorithm: {name: sac, normalize_observations: true}"
    ),
    "sac": "environment: {id: Pendulum-v1}\nalgorithm: {name: sac, hidden_sizes: [16]}",
    "dqn": "environment: {id: CartPole-v1}\nalgorithm: {name: dqn, hidden_sizes: [16]}",
    "muzero": (
        "environment: {id: fastloop/TicTacToe-v0, modules: [fast_core.clients.games.tic_tac_toe],"
        " action_mask: moves}\n"
        "algorithm: {name: muzero, two_players: true, latent: 8, hidden_sizes: [8], simulations: 6}"
    ),
}
ENVS, EPISODES = 3, 4


@dataclass
class Played:
    """What an evaluator node did.

    Attributes:
        run: Its run's directory.
        asked: Observations ``[ENVS, ...]``, marks of first ones, and the actions, step by step.
        returns: Of the episodes.
    """

    run: Path
    asked: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = field(default_factory=list)
    returns: tuple[float, ...] = ()

    @property
    def file(self) -> Path:
        return best_policy_path(self.run)


def config_text(kind: str, extra: str = "") -> str:
    return (
        f"name: made\n{KINDS[kind]}\nevaluation: {{episodes: {EPISODES}, envs: {ENVS},"
        " max_episode_steps: 30}\nrollout: {shards: 1, envs_per_shard: 4, steps: 16}\n"
        f"replay: {{capacity: 2000, learning_starts: 100}}\nstop: {{env_steps: 1000}}\n{extra}"
    )


def play(folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> Played:
    """Evaluate a policy with parameters drawn at random, in the evaluator node itself."""
    text = config_text(kind)
    if "ppo" in text:
        text = text.replace("replay: {capacity: 2000, learning_starts: 100}\n", "")
        text = text.replace("algorithm: {", "algorithm: {minibatch_size: 16, ")
    config = config_file.loads(text, [], algorithm_config_type, source="test")
    spec = config.algorithm.examine(probe(config.environment, config.seed))
    played = Played(folder)
    original = Actor.__call__

    def watched(self: Actor, obs: Any, began: Any) -> Any:
        asked = obs.copy(), began.copy()
        actions = original(self, obs, began)
        played.asked.append((*asked, actions.copy()))
        return actions

    stage = Stage(folder, config, environment=spec)
    try:
        monkeypatch.setattr(Actor, "__call__", watched)
        (folder / "config.yaml").write_text(config_file.dumps(stage.plan.config))
        node = EvaluatorNode(stage.context("evaluator-0"))
        node.setup()
        flat = stage.memory.parameters.empty()
        flat[:] = np.random.default_rng(5).normal(0, 0.7, flat.shape)
        stage.memory.evaluation().write(7, 70, flat)
        stage.hub.send("evaluator-0", Evaluate(1, 7, 70, EPISODES))
        drain(node)
        played.returns = stage.events()[-1].returns  # type: ignore[union-attr]
        node.close()
    finally:
        monkeypatch.setattr(Actor, "__call__", original)
        stage.close()
    return played
