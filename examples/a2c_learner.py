"""Advantage actor-critic as an algorithm of one's own: its targets and its loss."""

from typing import ClassVar

from torch import Tensor

from examples.a2c import A2CConfig
from fast_core.algos.rollouts.actor_critic import (
    ActorCritic,
    JudgedRollout,
    Minibatch,
    Targets,
    vtrace,
)


class A2C(ActorCritic[A2CConfig]):
    """One step on all rows of a round, corrected for the policy that acted (V-trace)."""

    evaluates: ClassVar[bool] = True

    def targets(self, rollout: JudgedRollout) -> Targets:
        """Once a round, in NumPy, ``[T, N]`` in the order of time."""
        settings = self.settings
        log_ratio = rollout.log_prob - rollout.merged.behaviour_log_prob
        target, advantage, weight = vtrace(
            log_ratio, *rollout.outcomes, gamma=settings.gamma, gae_lambda=settings.gae_lambda
        )
        return Targets(advantage, target, extra={"weight": weight})

    def loss(self, rows: Minibatch) -> tuple[Tensor, dict[str, Tensor]]:
        """Policy gradient, squared error of the value, and an entropy bonus, in torch."""
        settings, advantage = self.settings, rows.advantage
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        policy_loss = -(rows.extra["weight"] * advantage * rows.log_prob).mean()
        value_loss = (rows.target - rows.value).square().mean()
        entropy = rows.entropy.mean()
        loss = policy_loss + settings.value_weight * value_loss - settings.entropy_weight * entropy
        return loss, {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}
