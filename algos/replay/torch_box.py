"""Losses of actor-critics in boxes in torch, for networks of one's own: SAC and TD3.

They are those of `box_learner`, `sac` and `td3`, to the rounding, and draw the same noise.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from fast_core.algos.nets.distributions import LOG_2PI
from fast_core.algos.nets.own_shape import OwnShape
from fast_core.algos.nets.squashed_gaussian import LOG_2, LOG_STD_MAX, LOG_STD_MIN
from fast_core.algos.nets_torch.networks import Rows
from fast_core.algos.replay.torch_algorithm import Loss, Networks, TorchAlgorithm, TorchBatch
from fast_core.algos.replay.torch_networks import (
    Critics,
    Numbers,
    OwnCritics,
    OwnNetwork,
    Perceptron,
)
from fast_core.spec import EnvironmentSpec


class TorchBox(TorchAlgorithm[Any]):
    """Critics on stored actions, and a policy that follows their slope at its own."""

    replaced: ClassVar[bool] = True
    judging: ClassVar[tuple[str, ...]] = ("critics",)

    @classmethod
    def modules(
        cls, settings: Any, environment: EnvironmentSpec, seen: int
    ) -> dict[str, nn.Module]:
        """MLPs on what is seen."""
        critics = replace(settings.critic_shape(environment), inputs=seen + environment.action.size)
        policy = replace(settings.policy_shape(environment), inputs=seen)
        return cls._named(settings, Critics(critics), Perceptron(policy))

    @classmethod
    def own_modules(
        cls, settings: Any, environment: EnvironmentSpec, shape: OwnShape, seed: int
    ) -> dict[str, nn.Module]:
        """The user's module as each of them."""
        size, outputs = environment.action.size, settings.critic_outputs()
        whole = replace(shape, actions=size)
        critics = OwnCritics(whole, outputs, settings.critics, seed)
        policy = OwnNetwork(shape, settings.policy_outputs(size), seed + settings.critics)
        return cls._named(settings, critics, policy)

    @classmethod
    def _named(cls, settings: Any, critics: nn.Module, policy: nn.Module) -> dict[str, nn.Module]:
        """Critics, their averages, the policy."""
        averages = {}
        if settings.critic_numbers():
            averages["averages"] = Numbers(settings.critics, settings.critic_numbers())
        return {"critics": critics, **averages, "policy": policy}

    @classmethod
    def judge(cls, settings: Any, networks: Networks, rows: Rows, action: Tensor) -> Tensor:
        """What all critics say."""
        return networks("critics", networks.see(rows), action)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._actions = self.environment.action.size

    def loss(self, batch: TorchBatch) -> Loss:
        """The critics', and where it is due the policy's."""
        online, metrics = self.online, dict[str, Tensor]()
        with torch.no_grad():
            wanted = self._wanted(batch)
        seen = online.see(batch.obs)
        critics, error = self._critic_loss(
            online("critics", seen, batch.action), wanted, batch.weight, metrics
        )
        losses = {"critics": critics}
        if self.policy_is_due:
            # What critics see through is not the policy's to change.
            fixed = seen.detach() if isinstance(seen, Tensor) else seen
            losses |= self._policy_losses(fixed, metrics)
        return Loss(losses, error, metrics)

    def learning_rate(self, part: str) -> float:
        """Step sizes of critics and policy."""
        settings = self.settings
        own = settings.policy_learning_rate if part == "policy" else None
        return float(own or settings.learning_rate)

    @abstractmethod
    def _wanted(self, batch: TorchBatch) -> Tensor:
        """What critics should say, ``[..., N]``."""

    @abstractmethod
    def _policy_losses(self, seen: Any, metrics: dict[str, Tensor]) -> dict[str, Tensor]:
        """The policy's, and what goes with it."""

    def _critic_loss(
        self, value: Tensor, wanted: Tensor, weight: Tensor, metrics: dict[str, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Half the weighted mean squared error, summed over critics, and errors ``[N]``."""
        error = value[..., 0] - wanted
        loss = 0.5 * (error.square() * weight).mean(1).sum()
        metrics["critic_loss"] = loss.detach() / len(error)
        metrics["value"] = value[0, :, 0].detach().mean()
        return loss, error.detach().abs().mean(0)


class TorchTD3(TorchBox):
    """TD3, and with other settings DDPG."""

    followed: ClassVar[tuple[str, ...]] = ("critics", "policy")

    def _wanted(self, batch: TorchBatch) -> Tensor:
        settings, target = self.settings, self.target
        seen = target.see(batch.next_obs)
        action = target("policy", seen).tanh()
        if settings.smoothing_noise > 0.0:
            noise = self.normal(self._actions, len(action)).t() * settings.smoothing_noise
            limit = settings.smoothing_limit
            action = (action + noise.clamp(-limit, limit)).clamp(-1.0, 1.0)
        value = target("critics", seen, action)[..., 0].amin(0)
        return batch.reward + batch.discount * value

    def _policy_losses(self, seen: Any, metrics: dict[str, Tensor]) -> dict[str, Tensor]:
        action = self.online("policy", seen).tanh()
        loss = -self.online("critics", seen, action)[0, :, 0].mean()
        metrics["policy_loss"] = loss.detach()
        return {"policy": loss}


class TorchEntropy(TorchBox):
    """A squashed Gaussian with an entropy bonus."""

    @classmethod
    def _named(cls, settings: Any, critics: nn.Module, policy: nn.Module) -> dict[str, nn.Module]:
        """And the temperature's logarithm."""
        temperature, fixed = Numbers(1), settings.temperature
        first = settings.initial_temperature if isinstance(fixed, str) else fixed
        with torch.no_grad():
            temperature.values.fill_(math.log(first))
        return super()._named(settings, critics, policy) | {"temperature": temperature}

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._in_target = getattr(self.settings, "critics_in_target", None)

    def change(self, settings: Any) -> None:
        """See `fast_core.algorithm.Changeable`; a temperature that is learned goes on from here."""
        super().change(settings)
        if not isinstance(settings.temperature, str):
            with torch.no_grad():
                self.online.numbers("temperature").fill_(math.log(settings.temperature))

    @property
    def _target_entropy(self) -> float:
        wanted = self.settings.target_entropy
        return -float(self._actions) if wanted is None else float(wanted)

    def learning_rate(self, part: str) -> float:
        """Step sizes; a temperature that is not learned stays, whatever its moments are."""
        if part == "temperature" and self.settings.temperature != "auto":
            return 0.0
        own = self.settings.temperature_learning_rate if part == "temperature" else None
        return float(own or super().learning_rate(part))

    def _sample(self, output: Tensor) -> tuple[Tensor, Tensor]:
        """Actions ``[N, A]`` and their log-probabilities ``[N]``."""
        size = self._actions
        noise = self.normal(size, len(output)).t()
        log_std = output[:, size:].clamp(LOG_STD_MIN, LOG_STD_MAX)
        u = output[:, :size] + log_std.exp() * noise
        # log(1 - tanh(u)^2), exact where tanh(u) rounds to 1
        slope = 2.0 * (LOG_2 - u - functional.softplus(-2.0 * u))
        log_prob = (-0.5 * noise.square() - log_std - slope - 0.5 * LOG_2PI).sum(1)
        return u.tanh(), log_prob

    @property
    def _temperature(self) -> Tensor:
        return self.online.numbers("temperature").detach().exp()

    def _policy_losses(self, seen: Any, metrics: dict[str, Tensor]) -> dict[str, Tensor]:
        """Equation 9 of SAC's paper, and the temperature's."""
        action, log_prob = self._sample(self.online("policy", seen))
        value = self._judged(self.online("critics", seen, action)[..., 0])
        temperature, mean = self._temperature, log_prob.mean()
        loss = (temperature * mean - value).squeeze()
        metrics["policy_loss"], metrics["entropy"] = loss.detach(), -mean.detach()
        metrics["temperature"] = temperature.squeeze()
        if self.settings.temperature != "auto":
            return {"policy": loss}
        log = self.online.numbers("temperature").squeeze()
        return {"policy": loss, "temperature": -log * (mean.detach() + self._target_entropy)}

    def _judged(self, value: Tensor) -> Tensor:
        """What the policy is to raise, of values ``[M, N]``."""
        return value.amin(0).mean()


class TorchSAC(TorchEntropy):
    """Soft actor-critic; with random subsets of critics in targets REDQ."""

    def _wanted(self, batch: TorchBatch) -> Tensor:
        """Equation 3, over n steps."""
        online, target = self.online, self.target
        action, log_prob = self._sample(online("policy", online.see(batch.next_obs)))
        value = target("critics", target.see(batch.next_obs), action)[..., 0]
        if self._in_target is not None and self._in_target < len(value):
            chosen = self._rng.choice(len(value), self._in_target, replace=False)
            value = value.index_select(0, self._upload(np.asarray(chosen, np.int64)))
        soft = value.amin(0) - self._temperature * log_prob
        return batch.reward + batch.discount * soft

    def _judged(self, value: Tensor) -> Tensor:
        return value.mean() if self._in_target is not None else super()._judged(value)
