"""What learns in `examples.a2c`; imported in the optimizer node alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from examples.a2c import A2CConfig
from fast_core.algorithm import Array, LearnerSetup, RolloutBatch, ShardRollout, UpdateReport
from fast_core.spec import EnvironmentSpec


class A2CLearner:
    """Implements `fast_core.algorithm.Algorithm`."""

    def __init__(
        self, config: A2CConfig, environment: EnvironmentSpec, setup: LearnerSetup
    ) -> None:
        torch.manual_seed(setup.seed)
        inputs, actions = environment.observation.size, environment.action.n
        self._config = config
        self._hidden = nn.Linear(inputs, config.hidden)
        self._head = nn.Linear(config.hidden, actions)
        self._value = nn.Sequential(
            nn.Linear(inputs, config.hidden), nn.Tanh(), nn.Linear(config.hidden, 1)
        )
        self._networks = nn.ModuleList([self._hidden, self._head, self._value])
        self._adam = torch.optim.Adam(self._networks.parameters(), lr=config.learning_rate)

    def update(self, batch: RolloutBatch) -> UpdateReport:
        """One step on all rows of the round."""
        rows = [self._rows(rollout) for rollout in batch.rollouts]
        obs, action, target = (torch.cat(column) for column in zip(*rows, strict=True))
        value = self._value(obs)[:, 0]
        advantage = target - value.detach()
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        log_probs = self._log_probs(obs)
        entropy = -(log_probs.exp() * log_probs).sum(1).mean()
        policy_loss = -(log_probs.gather(1, action[:, None])[:, 0] * advantage).mean()
        value_loss = (target - value).square().mean()
        loss = (
            policy_loss
            + self._config.value_weight * value_loss
            - self._config.entropy_weight * entropy
        )
        self._adam.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self._networks.parameters(), 0.5)
        self._adam.step()
        metrics = {"value_loss": value_loss.item(), "entropy": entropy.item()}
        return UpdateReport(updates=1, skipped=0, metrics=metrics)

    def _log_probs(self, obs: Tensor) -> Tensor:
        return torch.log_softmax(self._head(torch.tanh(self._hidden(obs))), dim=1)

    def _rows(self, rollout: ShardRollout) -> tuple[Tensor, Tensor, Tensor]:
        """Observations, actions and n-step value targets of a rollout, ``[T * B, ...]``."""
        steps, envs = rollout.reward.shape
        with torch.no_grad():
            obs = torch.as_tensor(np.array(rollout.obs, np.float32)).reshape(steps + 1, envs, -1)
            final = torch.as_tensor(np.array(rollout.final_obs, np.float32))
            following = self._value(obs)[:, :, 0].numpy()
            at_end = self._value(final.reshape(steps, envs, -1))[:, :, 0].numpy()
        target = np.empty((steps, envs), np.float32)
        later = following[steps]
        for t in reversed(range(steps)):
            # Nothing follows where the task ended; where an episode was only cut off, what
            # would have followed is the value of its true last observation.
            later = np.where(rollout.truncated[t], at_end[t], later)
            later = np.where(rollout.terminated[t], 0.0, later)
            later = target[t] = rollout.reward[t] + self._config.gamma * later
        action = torch.as_tensor(np.array(rollout.action)).reshape(-1)
        return obs[:-1].reshape(steps * envs, -1), action, torch.as_tensor(target).reshape(-1)

    def policy_parameters(self) -> Sequence[Array]:
        """As `A2CConfig.policy_fields` says."""
        layers = (self._hidden, self._head)
        return [p.detach().numpy() for layer in layers for p in (layer.weight, layer.bias)]

    def insight_parameters(self) -> Sequence[Array]:
        """As `A2CConfig.insight_fields` says."""
        return [p.detach().numpy() for p in self._value.parameters()]

    def state_dict(self) -> dict[str, object]:
        """Everything that changes while training."""
        adam = self._adam.state_dict()["state"]
        return {
            "networks": dict(self._networks.state_dict()),
            "adam": {str(index): state for index, state in adam.items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`."""
        self._networks.load_state_dict(state["networks"])
        adam = {int(index): each for index, each in state["adam"].items()}
        self._adam.load_state_dict({**self._adam.state_dict(), "state": adam})


class A2CModule(nn.Module):
    """`A2CPolicy` without exploration in torch, from observations to the environment's actions."""

    def __init__(self, parameters: Sequence[Array], start: int) -> None:
        super().__init__()
        tensors = [torch.tensor(np.array(parameter)) for parameter in parameters]
        self.layers = nn.ParameterList(tensors)
        self._start = start

    def forward(self, obs: Tensor) -> Tensor:
        """``[B, ...]`` to ``[B]``."""
        weight, bias, head_weight, head_bias = self.layers
        hidden = torch.tanh(nn.functional.linear(obs.flatten(1).float(), weight, bias))
        return nn.functional.linear(hidden, head_weight, head_bias).argmax(1) + self._start
