"""TD3. Source: Fujimoto et al. 2018, arXiv:1802.09477."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Adam

from gops.algorithm.base import Dirac, follow, frozen_copy, perceptron
from gops.algorithm.remote import Remote


class ApproxContainer(nn.Module):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        obs, act = kwargs["obsv_dim"], kwargs["action_dim"]
        policy = perceptron((obs, *kwargs["policy_hidden_sizes"], act))
        self.policy = nn.Sequential(policy, nn.Tanh())
        sizes = (obs + act, *kwargs["value_hidden_sizes"], 1)
        self.q = nn.ModuleList(perceptron(sizes) for _ in range(2))
        self.q_target, self.policy_target = frozen_copy(self.q), frozen_copy(self.policy)
        self.q_optimizer = Adam(self.q.parameters(), lr=kwargs["value_learning_rate"])
        self.policy_optimizer = Adam(self.policy.parameters(), lr=kwargs["policy_learning_rate"])

    def create_action_distributions(self, logits: Tensor) -> Dirac:
        return Dirac(logits)


class TD3(Remote):
    container = ApproxContainer

    def __init__(self, index: int = 0, **kwargs: Any) -> None:
        super().__init__(index, **kwargs)
        self._gamma, self._tau, self._delay = kwargs["gamma"], kwargs["tau"], kwargs["delay_update"]

    def compute(self, data: dict[str, Tensor]) -> dict[str, float]:
        networks = self.networks
        seen = torch.cat([data["obs"], data["act"]], dim=-1)
        with torch.no_grad():
            act = networks.policy_target(data["obs2"])
            act = (act + (0.2 * torch.randn_like(act)).clamp(-0.5, 0.5)).clamp(-1.0, 1.0)
            following = torch.cat([data["obs2"], act], dim=-1)
            worth = torch.minimum(*(critic(following) for critic in networks.q_target))
            target = data["rew"] + self._gamma * (1.0 - data["done"]) * worth.squeeze(-1)
        losses = [(critic(seen).squeeze(-1) - target).pow(2).mean() for critic in networks.q]
        networks.q_optimizer.zero_grad()
        torch.stack(losses).sum().backward()
        networks.policy_optimizer.zero_grad()
        acted = torch.cat([data["obs"], networks.policy(data["obs"])], dim=-1)
        networks.q.requires_grad_(False)
        policy_loss = -networks.q[0](acted).mean()
        policy_loss.backward()
        networks.q.requires_grad_(True)
        return {"TD3/critic_loss": losses[0].item(), "TD3/policy_loss": policy_loss.item()}

    def apply(self, iteration: int) -> None:
        networks = self.networks
        networks.q_optimizer.step()
        if iteration % self._delay == 0:
            networks.policy_optimizer.step()
            pairs = ((networks.q, networks.q_target), (networks.policy, networks.policy_target))
            follow(pairs, self._tau)
