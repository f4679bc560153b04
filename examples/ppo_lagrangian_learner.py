"""What learns in `examples.ppo_lagrangian`; imported in the optimizer node alone."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from examples.ppo_lagrangian import PPOLagrangianConfig
from fast_core.algos.rollouts.actor_critic import (
    ActorCritic,
    JudgedRollout,
    Minibatch,
    Targets,
    generalized_advantages,
)


class Price(nn.Module):
    """What a unit of cost is worth in rewards."""

    def __init__(self) -> None:
        super().__init__()
        self.raw = nn.Parameter(torch.zeros(()))

    def forward(self) -> Tensor:
        """A positive number."""
        return nn.functional.softplus(self.raw)


class PPOLagrangian(ActorCritic[PPOLagrangianConfig]):
    """PPO on what rewards and priced costs say together; a second value expects the costs."""

    def make_heads(self, features: int) -> dict[str, nn.Module]:
        """The value of costs, and their price."""
        return {"cost": nn.Linear(features, 1), "price": Price()}

    def learning_rate(self, head: str) -> float:
        """The price has its own."""
        return self.settings.price_rate if head == "price" else self.settings.learning_rate

    def targets(self, rollout: JudgedRollout) -> Targets:
        """Those of rewards, and the same of the costs in the declared column."""
        cost = rollout.merged.extra["cost"]
        outcomes = rollout.outcomes_of("cost", cost)
        gamma, decay = self.settings.gamma, self.settings.gae_lambda
        advantage = generalized_advantages(*outcomes, gamma=gamma, gae_lambda=decay)
        costs = {"cost": cost, "advantage": advantage, "target": advantage + outcomes.value}
        return replace(super().targets(rollout), extra=costs)

    def loss(self, rows: Minibatch) -> tuple[Tensor, dict[str, Tensor]]:
        """PPO's clipped loss; the price follows how far costs are above the limit."""
        settings, costs, price = self.settings, rows.extra, self.heads["price"]()
        worth = price.detach()
        advantage = (rows.advantage - worth * costs["advantage"]) / (1 + worth)
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        ratio = (rows.log_prob - rows.old_log_prob).exp()
        clipped = ratio.clamp(1 - settings.clip_epsilon, 1 + settings.clip_epsilon)
        policy_loss = -torch.min(ratio * advantage, clipped * advantage).mean()
        expected = self.heads["cost"](rows.features)[:, 0]
        errors = (rows.value - rows.target).square() + (expected - costs["target"]).square()
        excess = costs["cost"].mean() - settings.cost_limit
        loss = policy_loss + settings.value_weight * errors.mean() - price * excess
        loss = loss - settings.entropy_weight * rows.entropy.mean()
        return loss, {"policy_loss": policy_loss, "price": worth, "cost": costs["cost"].mean()}
