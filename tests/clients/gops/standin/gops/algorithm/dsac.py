"""DSAC with one critic or several. Source: Duan et al. 2021, arXiv:2001.02811."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Adam

from gops.algorithm.base import Gaussian, GaussianPolicy, follow, frozen_copy
from gops.algorithm.base import perceptron as stacked
from gops.algorithm.remote import Remote

LOG_DEVIATION = (-0.1, 4.0)
BOUND = 10.0


class Critic(nn.Module):
    """Mean and deviation of the return."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        inputs = kwargs["obsv_dim"] + kwargs["action_dim"]
        self.layers = stacked((inputs, *kwargs["value_hidden_sizes"], 2))

    def forward(self, obs: Tensor, act: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_deviation = self.layers(torch.cat([obs, act], dim=-1)).unbind(-1)
        return mean, log_deviation.clamp(*LOG_DEVIATION).exp()


class ApproxContainer(nn.Module):
    """Critics, policy, their targets, and the temperature."""

    critics = 1

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        self.q = nn.ModuleList(Critic(**kwargs) for _ in range(self.critics))
        self.policy = GaussianPolicy(**kwargs)
        self.q_target, self.policy_target = frozen_copy(self.q), frozen_copy(self.policy)
        self.log_alpha = nn.Parameter(torch.tensor(0.0))
        self.q_optimizer = Adam(self.q.parameters(), lr=kwargs["value_learning_rate"])
        self.policy_optimizer = Adam(self.policy.parameters(), lr=kwargs["policy_learning_rate"])
        self.alpha_optimizer = Adam([self.log_alpha], lr=kwargs["alpha_learning_rate"])

    def create_action_distributions(self, logits: Tensor) -> Gaussian:
        return Gaussian(logits)


class DSAC(Remote):
    container: Any = ApproxContainer

    def __init__(self, index: int = 0, **kwargs: Any) -> None:
        super().__init__(index, **kwargs)
        self.gamma, self.tau, self.delay = kwargs["gamma"], kwargs["tau"], kwargs["delay_update"]
        self._entropy = -float(kwargs["action_dim"])

    def compute(self, data: dict[str, Tensor]) -> dict[str, float]:
        networks, obs = self.networks, data["obs"]
        act, logp = Gaussian(networks.policy(obs)).rsample()
        networks.q_optimizer.zero_grad()
        critic_loss, value, deviation = self._critic_loss(data)
        critic_loss.backward()
        networks.q.requires_grad_(False)
        networks.policy_optimizer.zero_grad()
        alpha = networks.log_alpha.exp()
        worth = torch.stack([critic(obs, act)[0] for critic in networks.q]).amin(0)
        policy_loss = (alpha.detach() * logp - worth).mean()
        policy_loss.backward()
        networks.q.requires_grad_(True)
        networks.alpha_optimizer.zero_grad()
        (-networks.log_alpha * (logp.detach() + self._entropy).mean()).backward()
        return {
            "DSAC/critic_loss": critic_loss.item(),
            "DSAC/policy_loss": policy_loss.item(),
            "DSAC/value": value.mean().item(),
            "DSAC/deviation": deviation.mean().item(),
            "DSAC/entropy": -logp.detach().mean().item(),
            "DSAC/alpha": alpha.item(),
        }

    def _critic_loss(self, data: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        target, sampled = self._targets(data)
        losses, values, deviations = [], [], []
        for number, critic in enumerate(self.networks.q):
            value, deviation = critic(data["obs"], data["act"])
            middle, bound = value.detach(), self.bound(number, deviation.detach())
            bounded = middle + (sampled - middle).clamp(-bound, bound)
            loss = ((value - target).pow(2) / (2.0 * deviation.detach().pow(2))).mean()
            loss = loss + ((middle - bounded).pow(2) / (2.0 * deviation.pow(2))).mean()
            losses.append(loss + deviation.log().mean())
            values.append(middle)
            deviations.append(deviation.detach())
        return torch.stack(losses).sum(), torch.stack(values), torch.stack(deviations)

    @torch.no_grad()
    def _targets(self, data: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        networks, obs = self.networks, data["obs2"]
        act, logp = Gaussian(networks.policy_target(obs)).rsample()
        mean, std = networks.q_target[0](obs, act)
        for critic in networks.q_target[1:]:
            other, other_std = critic(obs, act)
            std = torch.where(other < mean, other_std, std)
            mean = torch.minimum(mean, other)
        returned = mean + std * torch.randn_like(mean).clamp(-3.0, 3.0)
        discount = (1.0 - data["done"]) * self.gamma
        soft = networks.log_alpha.exp() * logp
        return data["rew"] + discount * (mean - soft), data["rew"] + discount * (returned - soft)

    def bound(self, number: int, deviation: Tensor) -> float | Tensor:
        """How far a sampled return may be from a critic's mean."""
        return BOUND

    def apply(self, iteration: int) -> None:
        networks = self.networks
        networks.q_optimizer.step()
        if iteration % self.delay:
            return
        networks.policy_optimizer.step()
        networks.alpha_optimizer.step()
        pairs = ((networks.q, networks.q_target), (networks.policy, networks.policy_target))
        follow(pairs, self.tau)
