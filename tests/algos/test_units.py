"""The same task in other units of the action is learned in the same way, to the last bit."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box

from fast_core.algorithm import LearnerSetup, PolicySetup, RolloutBatch, ShardRollout
from fast_core.algos.ppo.config import PPOConfig
from tests.algos.replay_cases import BOX, make_config
from tests.algos.simple_replay import environment_spec, train
from tests.forms import slow_but

UNITS = (1.0, 2.0**-13, 2.0**13)  # powers of two, so that an environment's own division is exact


class Steered(gymnasium.Env[Any, Any]):
    """A mass is pushed to the middle, in a box of ``[-unit, unit]``; far out the episode ends."""

    observation_space = Box(-np.inf, np.inf, (2,), np.float32)

    def __init__(self, unit: float) -> None:
        self.unit = unit
        self.action_space = Box(-unit, unit, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.state = self.np_random.normal(size=2).astype(np.float32)
        return self.state.copy(), {}

    def step(self, action: Any) -> Any:
        self.state = self.state + np.float32(0.3) * (action / np.float32(self.unit))
        distance = float(np.square(self.state).sum())
        return self.state.copy(), -distance, distance > 9.0, distance < 0.01, {}


@pytest.mark.parametrize("name", slow_but(["sac", "td3", "dsact"], BOX))
def test_replay_learns_the_same_numbers_in_any_unit(name: str) -> None:
    scores = [
        train(
            make_config(name),
            "Steered-v0",
            steps=200,
            warmup=50,
            every=50,
            setup=LearnerSetup(0, 1, 1, 1),
            make=lambda _, unit=unit: gymnasium.wrappers.TimeLimit(Steered(unit), 25),
        )
        for unit in UNITS
    ]
    assert len(set(scores[0])) == 4, "nothing was learned"
    assert scores[1] == scores[0]
    assert scores[2] == scores[0]


def learned_by_ppo(unit: float, rounds: int = 3, steps: int = 64) -> list[Any]:
    """What PPO's policy is after a few rounds of episodes that are cut by rollouts."""
    env = Steered(unit)
    spec = environment_spec(env, "Steered-v0")
    config = PPOConfig(hidden_sizes=(8,), minibatch_size=16, normalize_actions=True)
    learner = config.make_algorithm(spec, LearnerSetup(0, 1, 1, steps))
    policy = config.make_policy(spec, PolicySetup())
    rng = np.random.default_rng(0)
    obs, _ = env.reset(seed=0)
    for number in range(rounds):
        policy.load(learner.policy_parameters())
        rows = []
        for _ in range(steps):
            noise = rng.standard_normal((1, 2), np.float32)
            chosen = policy.act(obs[None], noise=noise, explore=True)
            after, reward, terminated, truncated, _ = env.step(
                policy.environment_action(chosen.action)[0]
            )
            row = (chosen.action.copy(), chosen.behaviour_log_prob, reward, terminated, truncated)
            rows.append((obs, after, *row))
            obs = env.reset()[0] if terminated or truncated else after
        seen, final, action, log_prob, reward, terminated, truncated = zip(*rows, strict=True)
        rollout = ShardRollout(
            shard=0,
            rollout_id=number,
            policy_version=np.zeros((steps, 1), np.int64),
            obs=np.stack([*seen, obs])[:, None],
            action=np.stack(action),
            behaviour_log_prob=np.stack(log_prob),
            reward=np.float32(reward)[:, None],
            terminated=np.array(terminated)[:, None],
            truncated=np.array(truncated)[:, None],
            final_obs=np.stack(final)[:, None],
        )
        assert learner.update(RolloutBatch((rollout,), 0, 0.0)).updates == 4 * config.epochs
    return [np.array(p) for p in learner.policy_parameters()]


def test_ppo_learns_the_same_numbers_in_any_unit() -> None:
    expected, *others = (learned_by_ppo(unit) for unit in UNITS)
    for found in others:
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)
