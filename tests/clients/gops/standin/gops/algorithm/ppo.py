"""One that learns from the policy's own samples: its gradient, with ratios clipped as PPO's."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.optim import Adam

from gops.algorithm.base import AlgorithmBase, Gaussian, GaussianPolicy


class ApproxContainer(nn.Module):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        self.policy = GaussianPolicy(**kwargs)
        self.optimizer = Adam(self.policy.parameters(), lr=kwargs["policy_learning_rate"])

    def create_action_distributions(self, logits: Tensor) -> Gaussian:
        return Gaussian(logits)


class PPO(AlgorithmBase):
    container = ApproxContainer

    def __init__(self, *, sample_batch_size: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.indices = np.arange(sample_batch_size)  # of what it learns from, as GOPS's

    def compute(self, data: dict[str, Tensor]) -> dict[str, float]:
        data = {name: value[self.indices] for name, value in data.items()}
        distribution = Gaussian(self.networks.policy(data["obs"]))
        ratio = (distribution.log_prob(data["act"]) - data["logp"]).exp()
        advantage = data["rew"] - data["rew"].mean()
        clipped = ratio.clamp(0.8, 1.2) * advantage
        loss = -(ratio * advantage).minimum(clipped).mean()
        self.networks.optimizer.zero_grad()
        loss.backward()
        return {"PPO/loss": loss.item(), "PPO/rows": float(len(data["rew"]))}

    def apply(self, iteration: int) -> None:
        self.networks.optimizer.step()
