"""Algorithms from rollouts as users write them, good ones and bad ones."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import nn

from fast_core.algos.ppo.autograd import clipped_loss
from fast_core.algos.ppo.config import PPOConfig
from fast_core.algos.rollouts.actor_critic import (
    ActorCritic,
    Minibatch,
    Targets,
    generalized_advantages,
)
from fast_core.algos.rollouts.config import ActorCriticConfig

HERE = "tests.algos.rollouts.own_losses"


class ClippedConfig(PPOConfig, frozen=True, kw_only=True):
    learner: ClassVar[str] = f"{HERE}:Clipped"
    gradient: str = "autograd"


class Clipped(ActorCritic[ClippedConfig]):
    """PPO once more."""

    def scheduled(self, left):
        return self.settings.clip_epsilon

    def loss(self, rows: Minibatch):
        return clipped_loss(self.settings, rows)


class OwnConfig(ActorCriticConfig, frozen=True, kw_only=True):
    learner: ClassVar[str] = f"{HERE}:Own"
    name: str = "own"
    hidden_sizes: tuple[int, ...] | None = (8,)
    learning_rate: float = 1e-2


class Own(ActorCritic[OwnConfig]):
    """Two values, of which one expects how often 1 is chosen, dropout and numbers of its own."""

    evaluates: ClassVar[bool] = True

    def make_heads(self, features):
        layers = [nn.Linear(features, 4), nn.Dropout(0.5), nn.Linear(4, 1)]
        return {"second": nn.Sequential(*layers), "scale": Scale()}

    def learning_rate(self, head):
        return 0.1 if head == "scale" else self.settings.learning_rate

    def targets(self, rollout):
        advantage = generalized_advantages(*rollout.outcomes, gamma=0.9, gae_lambda=0.9)
        cost = (rollout.merged.action == 1).reshape(advantage.shape).astype(np.float32)
        outcomes = self.second = rollout.outcomes_of("second", cost)
        second = generalized_advantages(*outcomes, gamma=0.9, gae_lambda=1.0) + outcomes.value
        ratio = np.exp(rollout.log_prob - rollout.merged.behaviour_log_prob)
        extra = {"second": second, "ratio": ratio}
        return Targets(advantage, advantage + rollout.outcomes.value, extra=extra)

    def loss(self, rows):
        second = self.heads["second"](rows.features)[:, 0]
        second_loss = (second - rows.extra["second"]).square().mean()
        value_loss = (rows.value - rows.target).square().mean()
        noise = 1 + 0.1 * torch.randn(())
        policy_loss = -(noise * rows.extra["ratio"] * rows.advantage * rows.log_prob).mean()
        scale = self.heads["scale"].log
        loss = policy_loss + value_loss + second_loss + (scale - 1).square()
        return loss, {"second_loss": second_loss, "scale": scale, "noise": noise}


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.log = nn.Parameter(torch.zeros(()))


class Simple(Own):
    """The least that works; what is wrong derives from it."""

    make_heads = ActorCritic.make_heads
    targets = ActorCritic.targets
    evaluates = False

    def loss(self, rows):
        error = (rows.value - rows.target).square().mean()
        return error - (rows.advantage * rows.log_prob).mean(), {"error": error}


class Seeing(Simple):
    def loss(self, rows):
        self.seen = [rows.obs.vector.shape, rows.obs.mask.shape]
        return super().loss(rows)


class Lossless(ActorCritic[OwnConfig]):
    pass


class RowByRow(Simple):
    def loss(self, rows):
        return (rows.value - rows.target).square(), {}


class Alone(Simple):
    def loss(self, rows):
        return super().loss(rows)[0]


class HostNumbers(Simple):
    def loss(self, rows):
        return super().loss(rows)[0], {"error": 0.5}


class Detached(Simple):
    def loss(self, rows):
        return super().loss(rows)[0].detach(), {}


class ValueAlone(Simple):
    def loss(self, rows):
        return super().loss(rows)[1]["error"], {}


class PolicyAlone(Simple):
    def loss(self, rows):
        return -(rows.advantage * rows.log_prob).mean(), {}


class Unused(Simple):
    def make_heads(self, features):
        return {"second": nn.Linear(features, 1)}


class Wide(Unused):
    def make_heads(self, features):
        return {"second": nn.Linear(features, 2)}

    def targets(self, rollout):
        rollout.outcomes_of("second", rollout.outcomes.reward)


class NoSuchHead(Unused):
    def targets(self, rollout):
        rollout.outcomes_of("third", rollout.outcomes.reward)


class Unasked(Simple):
    def targets(self, rollout):
        return Targets(rollout.log_prob, rollout.outcomes.value)


class OneStepLess(Simple):
    def targets(self, rollout):
        return Targets(rollout.outcomes.reward[1:], rollout.outcomes.value)


class Tuple(Simple):
    def targets(self, rollout):
        return rollout.outcomes.reward, rollout.outcomes.value


class Reserved(Simple):
    def make_heads(self, features):
        return {"policy": nn.Linear(features, 1)}


class Listed(Simple):
    def make_heads(self, features):
        return [nn.Linear(features, 1)]


class Empty(Simple):
    def make_heads(self, features):
        return {"second": nn.Tanh()}


class Double(Simple):
    def make_heads(self, features):
        return {"second": nn.Linear(features, 1).double()}


class NotFinite(Simple):
    def loss(self, rows):
        loss, numbers = super().loss(rows)
        return loss * float("inf"), numbers
