"""Stable-Baselines3's own PPO, collecting in one process while it trains in another.

Its `collect_rollouts` and `train` stay what they are. ``python examples/embedded_sb3.py`` needs
``pip install stable-baselines3``.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.evaluation import evaluate_policy

from fast_core.integrations import AsyncTrainer


class Model:
    """A PPO of SB3's, set up as its `learn` would."""

    def __init__(self, rank: int = 0, seed: int = 0):
        torch.set_num_threads(1)  # three processes share the cores
        self.ppo = PPO("MlpPolicy", "CartPole-v1", n_steps=512, device="cpu", seed=seed)
        _, self.callback = self.ppo._setup_learn(total_timesteps=1_000_000)

    def load_weights(self, state: Any, version: int) -> None:
        """Act with the learner's weights from now on."""
        self.ppo.policy.load_state_dict(state)

    def get_weights(self) -> Any:
        """What `load_weights` gets."""
        return self.ppo.policy.state_dict()


class Collector(Model):
    """Has SB3's own way to collect."""

    def collect(self) -> RolloutBuffer:
        """One rollout; SB3 fills the same buffer again, so a copy."""
        ppo = self.ppo
        ppo.collect_rollouts(ppo.env, self.callback, ppo.rollout_buffer, ppo.n_steps)
        return copy.deepcopy(ppo.rollout_buffer)

    def count_env_steps(self, rollouts: RolloutBuffer) -> int:
        """Of one `collect`."""
        return rollouts.buffer_size * rollouts.n_envs


class Learner(Model):
    """Has SB3's own way to learn."""

    def train(self, rollouts: RolloutBuffer) -> None:
        """All epochs on one rollout."""
        self.ppo.rollout_buffer = rollouts
        self.ppo.train()


class Evaluator(Model):
    """Has SB3's own way to evaluate."""

    def eval(self) -> tuple[bool, float]:
        """Whether to stop, and the score."""
        mean, _ = evaluate_policy(self.ppo, self.ppo.env, n_eval_episodes=5)
        return mean >= 475, float(mean)


def main(max_env_step: int = 100_000, backend: Any = "process") -> None:
    """Train CartPole-v1."""
    result = AsyncTrainer(
        collector=Collector,
        learner=Learner(),
        evaluator=Evaluator,
        backend=backend,
        off_policy_degree=1,
        enable_async_eval=True,
        should_eval=lambda train_iter: train_iter % 5 == 0,
    ).run(max_env_step=max_env_step)
    print(result.why, result.stats, *result.evaluations[-3:], sep="\n")


if __name__ == "__main__":
    main()
