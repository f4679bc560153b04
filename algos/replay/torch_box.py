"""Losses of actor-critics in boxes in torch: SAC and TD3.

They are those of `box_learner`, `sac` and `td3`, to the rounding, and draw the same noise.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from fast_core.algorithm.spec import EnvironmentSpec
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


def along(output: Tensor, gradient: Tensor) -> Tensor:
    """A loss whose gradient with respect to ``output`` is this one; of as many numbers.

    What lies behind a network's output is differentiated by hand, so that torch records nothing
    but the network: on the CPU an operation in a graph costs as much as small ones compute.
    """
    return torch.dot(output.reshape(-1), gradient.reshape(-1))


class Sampled(NamedTuple):
    """Draws from `nets.squashed_gaussian`, rows first.

    Attributes:
        action: ``[N, A]``.
        log_prob: ``[N]``.
        spread: ``[N, A]``, the noise times its deviation.
        inside: ``[N, A]``, where the log-deviation was within its limits.
    """

    action: Tensor
    log_prob: Tensor
    spread: Tensor
    inside: Tensor

    @classmethod
    def of(cls, output: Tensor, noise: Tensor) -> Sampled:
        """From means and log-deviations ``[N, 2 A]``, with standard normal ``noise [N, A]``."""
        mean, raw = output.chunk(2, 1)
        log_std = raw.clamp(LOG_STD_MIN, LOG_STD_MAX)
        spread = log_std.exp() * noise
        u = mean + spread
        # log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2u)), exact where tanh(u) rounds to 1
        slope = u + functional.softplus(-2.0 * u)
        surprise = torch.addcmul(log_std, noise, noise, value=0.5).sub_(slope, alpha=2.0).sum(1)
        constant = (0.5 * LOG_2PI + 2.0 * LOG_2) * noise.shape[1]
        return cls(u.tanh(), -constant - surprise, spread, log_std == raw)

    def gradient(self, slope: Tensor, share: Tensor) -> Tensor:
        """With respect to the output: ``[N, 2 A]``.

        Args:
            slope: ``[N, A]``, of the loss with respect to the actions.
            share: A number, of the loss with respect to each row's log-probability.
        """
        # d log p / du = 2 tanh(u); da/du = 1 - a^2
        mean = torch.addcmul(slope, slope, self.action.square(), value=-1.0)
        mean += self.action * (2.0 * share)
        return torch.cat([mean, (mean * self.spread - share) * self.inside], 1)


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
        with torch.no_grad():
            error = value[..., 0] - wanted
            slope = error * weight
            loss = torch.dot(error.flatten(), slope.flatten())
            metrics["critic_loss"] = loss * (0.5 / error.numel())
            metrics["value"] = value[0].mean()
            slope *= 1.0 / len(weight)
        return along(value, slope), error.abs_().mean(0)

    def _follow(self, seen: Any, action: Tensor) -> tuple[Tensor, Tensor]:
        """What the policy is to raise, and the slope ``[N, A]`` of minus that at its actions."""
        action = action.requires_grad_()
        value = self.online("critics", seen, action)
        with torch.no_grad():
            delta = torch.zeros_like(value)
            judged = self._judged(value[..., 0], delta[..., 0])
        # A critic need not look at every number.
        (slope,) = torch.autograd.grad(value, (action,), delta, materialize_grads=True)
        action.requires_grad_(False)
        return judged, slope

    def _written(self, name: str) -> Tensor:
        """Where the gradient of numbers goes that is written by hand."""
        gradient = self.online.numbers(name).grad
        assert gradient is not None, f"{name} are a part"
        return gradient

    def _judged(self, value: Tensor, delta: Tensor) -> Tensor:
        """The mean over rows of the least value ``[M, N]``.

        Args:
            value: What the critics say.
            delta: ``[M, N]`` zeros, where the gradient of minus the mean goes.
        """
        least, which = value.min(0, keepdim=True)
        delta.scatter_(0, which, -1.0 / value.shape[1])
        return least.mean()


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
        output = self.online("policy", seen)
        action = output.detach().tanh()
        value, slope = self._follow(seen, action)
        metrics["policy_loss"] = -value
        return {"policy": along(output, torch.addcmul(slope, slope, action.square(), value=-1.0))}

    def _judged(self, value: Tensor, delta: Tensor) -> Tensor:
        """That of the first critic, as the paper's algorithm 1 has it."""
        return super()._judged(value[:1], delta[:1])


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

    @torch.no_grad()
    def _sample(self, output: Tensor) -> Sampled:
        """Actions for the outputs ``[N, 2 A]`` of a policy."""
        return Sampled.of(output, self.normal(self._actions, len(output)).t())

    @property
    def _temperature(self) -> Tensor:
        return self.online.numbers("temperature").detach().exp()

    def _policy_losses(self, seen: Any, metrics: dict[str, Tensor]) -> dict[str, Tensor]:
        """Equation 9 of SAC's paper, and the temperature's."""
        output = self.online("policy", seen)
        drawn = self._sample(output)
        value, slope = self._follow(seen, drawn.action)
        temperature, mean = self._temperature.squeeze(), drawn.log_prob.mean()
        metrics["policy_loss"] = temperature * mean - value
        metrics["entropy"], metrics["temperature"] = -mean, temperature
        if self.settings.temperature == "auto":
            # Of -log(temperature) * (log_prob + target_entropy).
            self._written("temperature").fill_(-(mean + self._target_entropy))
        return {"policy": along(output, drawn.gradient(slope, temperature / len(output)))}


class TorchSAC(TorchEntropy):
    """Soft actor-critic; with random subsets of critics in targets REDQ."""

    def _wanted(self, batch: TorchBatch) -> Tensor:
        """Equation 3, over n steps."""
        online, target = self.online, self.target
        drawn = self._sample(online("policy", online.see(batch.next_obs)))
        value = target("critics", target.see(batch.next_obs), drawn.action)[..., 0]
        some = self.settings.critics_in_target
        if some is not None and some < len(value):
            chosen = self._rng.choice(len(value), some, replace=False)
            value = value.index_select(0, self._upload(np.asarray(chosen, np.int64)))
        soft = value.amin(0) - self._temperature * drawn.log_prob
        return batch.reward + batch.discount * soft

    def _judged(self, value: Tensor, delta: Tensor) -> Tensor:
        if not self.settings.averages_critics():
            return super()._judged(value, delta)
        delta.fill_(-1.0 / value.numel())
        return value.mean()
