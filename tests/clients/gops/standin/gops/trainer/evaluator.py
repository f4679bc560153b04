"""Episodes with the policy's mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gops.create_pkg.create_alg import create_networks
from gops.create_pkg.create_env import create_env
from gops.utils.common_utils import set_seed


class Evaluator:
    def __init__(self, index: int = 0, **kwargs: Any) -> None:
        _, self._env = set_seed(
            kwargs["trainer"], kwargs["seed"], index + 400, create_env(**kwargs)
        )
        self.networks = create_networks(**kwargs)
        self._episodes, self._folder = kwargs["num_eval_episode"], kwargs["save_folder"]

    def load_state_dict(self, state_dict: Any) -> None:
        self.networks.load_state_dict(state_dict)

    def run_evaluation(self, iteration: int) -> float:
        scores = [self._episode() for _ in range(self._episodes)]
        np.save(f"{self._folder}/evaluator/iter{iteration}", scores)
        return float(np.mean(scores))

    @torch.no_grad()
    def _episode(self) -> float:
        obs, _ = self._env.reset()
        done, score = False, 0.0
        while not done:
            logits = self.networks.policy(torch.from_numpy(obs[None]))
            action = self.networks.create_action_distributions(logits).mode()
            obs, reward, done, _ = self._env.step(action.numpy()[0])
            score += reward
        return score
