"""Quantile regression DQN as an algorithm of one's own: the learner, in torch."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from examples.qrdqn import QRDQNConfig
from fast_core.algorithm import Array, LearnerSetup, ReplayBatch, UpdateReport
from fast_core.spec import EnvironmentSpec


class QRDQNLearner:
    """Moves quantiles of returns to those of double-DQN targets: algorithm 1 of the paper."""

    def __init__(
        self, config: QRDQNConfig, environment: EnvironmentSpec, setup: LearnerSetup
    ) -> None:
        self._config, self._choices = config, environment.action.n
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(setup.seed)
            self._network = nn.Sequential(
                nn.Linear(environment.observation.size, config.hidden),
                nn.ReLU(),
                nn.Linear(config.hidden, self._choices * config.quantiles),
            )
        self._target = deepcopy(self._network).requires_grad_(False)
        self._adam = torch.optim.Adam(self._network.parameters(), lr=config.learning_rate)
        self._share = (torch.arange(config.quantiles) + 0.5) / config.quantiles
        self._updates = 0

    def update(self, batch: ReplayBatch) -> UpdateReport:
        """One optimizer step."""
        obs, next_obs, reward, discount, weight = (
            torch.as_tensor(np.array(column, np.float32)).reshape(len(column), -1)
            for column in (batch.obs, batch.next_obs, batch.reward, batch.discount, batch.weight)
        )
        action = torch.as_tensor(np.array(batch.action))
        with torch.no_grad():
            best = self._quantiles(self._network, next_obs).mean(2).argmax(1)
            target = reward + discount * _of(self._quantiles(self._target, next_obs), best)
        quantiles = _of(self._quantiles(self._network, obs), action)
        error = target[:, None, :] - quantiles[:, :, None]  # [N, quantile, target]
        huber = torch.where(error.abs() < 1, 0.5 * error.square(), error.abs() - 0.5)
        asymmetry = (self._share[:, None] - (error.detach() < 0).float()).abs()
        loss = (weight * (asymmetry * huber).mean(2).sum(1, keepdim=True)).mean()
        self._adam.zero_grad()
        loss.backward()
        self._adam.step()
        with torch.no_grad():
            for slow, fast in zip(
                self._target.parameters(), self._network.parameters(), strict=True
            ):
                slow.lerp_(fast, self._config.target_rate)
        self._updates += 1
        # With replay.prioritized, rows are drawn by this.
        priority = (target.mean(1) - quantiles.mean(1)).abs().detach().numpy()
        metrics = {"critic_loss": loss.item(), "value": quantiles.mean().item()}
        return UpdateReport(updates=1, skipped=0, metrics=metrics, priority=priority)

    def _quantiles(self, network: nn.Sequential, obs: Tensor) -> Tensor:
        """``[N, choice, quantile]``."""
        found: Tensor = network(obs)
        return found.reshape(len(obs), self._choices, self._config.quantiles)

    def policy_parameters(self) -> Sequence[Array]:
        """As `QRDQNConfig.policy_fields` says; actions are random until the first update."""
        exploration = self._config.epsilon if self._updates else 1.0
        parameters = [p.detach().numpy() for p in self._network.parameters()]
        return [*parameters, np.array([exploration], np.float32)]

    def state_dict(self) -> dict[str, object]:
        """Everything that changes while training."""
        adam = self._adam.state_dict()["state"]
        return {
            "network": dict(self._network.state_dict()),
            "target": dict(self._target.state_dict()),
            "adam": {str(index): state for index, state in adam.items()},
            "updates": self._updates,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`."""
        self._network.load_state_dict(state["network"])
        self._target.load_state_dict(state["target"])
        adam = {int(index): each for index, each in state["adam"].items()}
        self._adam.load_state_dict({**self._adam.state_dict(), "state": adam})
        self._updates = int(state["updates"])


def _of(quantiles: Tensor, action: Tensor) -> Tensor:
    """Those of one choice for each row: ``[N, quantile]``."""
    return quantiles[torch.arange(len(quantiles)), action]
