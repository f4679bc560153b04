"""Tensors at once, for an update from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gops.trainer.sampler.base import BaseSampler, Experience


class OnSampler(BaseSampler):
    def batch(self, rows: list[Experience]) -> Any:
        columns = {
            "obs": [row.obs for row in rows],
            "act": [row.action for row in rows],
            "rew": [row.reward for row in rows],
            "done": [row.done for row in rows],
            "logp": [row.logp for row in rows],
        }
        return {
            name: torch.from_numpy(np.array(values, np.float32)) for name, values in columns.items()
        }

    def sample_with_replay_format(self) -> Any:
        return self.sample()
