"""A loop written by hand, and the same loop under FastLoop's scheduler.

``python examples/embedded_loop.py`` learns CartPole-v1 by REINFORCE with a linear policy, episodes
being played in two processes while the learner learns from those before.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from fast_core.integrations import AsyncTrainer

# --- what was there before -----------------------------------------------------------------------


class Player:
    """Plays whole episodes; a policy is four weights."""

    def __init__(self, seed: int):
        self.env, self.seed = gym.make("CartPole-v1"), seed
        self.random, self.weights = np.random.default_rng(seed), np.zeros(4)

    def play(self, explore: bool = True) -> dict[str, np.ndarray]:
        """One episode: observations [T, 4], actions [T]."""
        obs, _ = self.env.reset(seed=int(self.random.integers(2**31)))
        seen, taken, over = [], [], False
        while not over:
            right = 1 / (1 + np.exp(-obs @ self.weights))
            action = int(self.random.random() < right) if explore else int(right > 0.5)
            seen.append(obs)
            taken.append(action)
            obs, _, terminated, truncated, _ = self.env.step(action)
            over = terminated or truncated
        return {"obs": np.array(seen), "actions": np.array(taken)}


class Reinforce:
    """Follows the gradient of the returns."""

    def __init__(self, rate: float = 0.02):
        self.weights, self.rate, self.baseline = np.zeros(4), rate, 20.0

    def update(self, episode: dict[str, np.ndarray]) -> None:
        """One step on one episode."""
        obs, actions = episode["obs"], episode["actions"]
        to_go = np.arange(len(obs), 0, -1.0)
        advantage = (to_go - self.baseline) / (1 + self.baseline)
        error = actions - 1 / (1 + np.exp(-obs @ self.weights))
        self.weights = self.weights + self.rate * (advantage * error) @ obs / len(obs) ** 0.5
        self.baseline += 0.05 * (len(obs) / 2 - self.baseline)


# --- around it -----------------------------------------------------------------------------------


class Collector(Player):
    """Has `collect` and `load_weights`."""

    def __init__(self, rank: int, seed: int):
        super().__init__(seed)

    def collect(self) -> dict[str, np.ndarray]:
        """What the learner gets."""
        return self.play()

    def count_env_steps(self, episode: dict[str, np.ndarray]) -> int:
        """Of one `collect`."""
        return len(episode["obs"])

    def load_weights(self, state: Any, version: int) -> None:
        """Act with the learner's weights from now on."""
        self.weights = state


class Evaluator(Collector):
    """Plays five episodes without exploration, and says stop when they are long enough."""

    def eval(self) -> tuple[bool, float]:
        """Whether to stop, and the score."""
        mean = float(np.mean([len(self.play(explore=False)["obs"]) for _ in range(5)]))
        return mean >= 475, mean


class Learner(Reinforce):
    """Has `train` and `get_weights`."""

    def train(self, episode: dict[str, np.ndarray]) -> None:
        """One update."""
        self.update(episode)

    def get_weights(self) -> np.ndarray:
        """What `load_weights` gets."""
        return self.weights


if __name__ == "__main__":
    trainer = AsyncTrainer(
        collector=Collector,
        learner=Learner(),
        evaluator=Evaluator,
        backend="process",
        num_collectors=2,
        off_policy_degree=1,
        enable_async_eval=True,
        should_eval=lambda train_iter: train_iter % 50 == 0,
    )
    result = trainer.run(max_train_iter=3_000)
    print(result.why, result.stats, *result.evaluations[-3:], sep="\n")
