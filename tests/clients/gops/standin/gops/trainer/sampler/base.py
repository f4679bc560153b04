"""One environment, a call of the policy for each step."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
import torch

from gops.create_pkg.create_alg import create_networks
from gops.create_pkg.create_env import create_env
from gops.utils.common_utils import set_seed
from gops.utils.tensorboard_setup import tb_tags


class Experience(NamedTuple):
    obs: np.ndarray
    action: np.ndarray
    reward: float
    done: bool
    info: dict[str, Any]
    next_obs: np.ndarray
    next_info: dict[str, Any]
    logp: float


class BaseSampler:
    def __init__(
        self,
        sample_batch_size: int,
        index: int = 0,
        noise_params: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self.sample_batch_size, self._noise = sample_batch_size, noise_params
        _, self.env = set_seed(kwargs["trainer"], kwargs["seed"], index + 200, create_env(**kwargs))
        self.networks = create_networks(**kwargs)
        self.total_sample_number = 0
        self.obs, self.info = self.env.reset()

    def load_state_dict(self, state_dict: Any) -> None:
        self.networks.load_state_dict(state_dict)

    def get_total_sample_number(self) -> int:
        return self.total_sample_number

    def sample(self) -> tuple[Any, dict[str, float]]:
        began_s = time.perf_counter()
        self.total_sample_number += self.sample_batch_size
        rows = [self._step() for _ in range(self.sample_batch_size)]
        return self.batch(rows), {tb_tags["sampler_time"]: (time.perf_counter() - began_s) * 1000}

    def batch(self, rows: list[Experience]) -> Any:
        return rows

    def _step(self) -> Experience:
        with torch.no_grad():
            logits = self.networks.policy(torch.from_numpy(self.obs[None]))
            action, logp = self.networks.create_action_distributions(logits).sample()
        act = action.numpy()[0]
        if self._noise is not None:
            act = act + np.random.normal(self._noise["mean"], self._noise["std"])  # noqa: NPY002
        low, high = self.env.action_space.low, self.env.action_space.high
        next_obs, reward, done, next_info = self.env.step(act.clip(low, high))
        over = next_info.setdefault("TimeLimit.truncated", False)
        row = Experience(
            obs=self.obs,
            action=act,
            reward=reward,
            done=done and not over,
            info=self.info,
            next_obs=next_obs,
            next_info=next_info,
            logp=logp.numpy()[0],
        )
        self.obs, self.info = self.env.reset() if done else (next_obs, next_info)
        return row
