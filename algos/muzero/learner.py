"""MuZero's losses: a model that is unrolled along what was done, and says what came of it."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from fast_core.algorithm import LearnerSetup, SequenceBatch
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.muzero.config import MuZeroConfig
from fast_core.algos.muzero.reanalysis import Reanalysis
from fast_core.algos.muzero.torch_model import TorchModel
from fast_core.algos.muzero.torch_sequences import Sequences, TorchSequences
from fast_core.algos.muzero.torch_support import TorchSupport
from fast_core.algos.nets.networks import F32
from fast_core.algos.replay.learner import DrawnBatch
from fast_core.algos.replay.torch_algorithm import Loss, TorchAlgorithm
from fast_core.algos.replay.torch_networks import Perceptron

PASSED_ON = 0.5  # of a latent state's gradient, through each step of the dynamics


class MuZero(TorchAlgorithm[MuZeroConfig]):
    """Learns what a search needs: rewards, values, and what searches chose.

    Source: Schrittwieser et al. 2020, arXiv:1911.08265, appendix G.
    """

    acting: ClassVar[tuple[str, ...]] = ("representation", "dynamics", "prediction")

    @classmethod
    def modules(
        cls, settings: MuZeroConfig, environment: EnvironmentSpec, seen: int
    ) -> dict[str, nn.Module]:
        """The three networks."""
        parts = settings.model(environment).parts
        return {name: Perceptron(shape) for name, shape in parts.items()}

    def _allocate(
        self, environment: EnvironmentSpec, setup: LearnerSetup, limit: float | None
    ) -> None:
        super()._allocate(environment, setup, limit)
        shape = self.settings.model(environment)
        self._choices = shape.choices
        self._model = TorchModel(self.online, shape)
        self._slow_model = TorchModel(self.target, shape)
        self._value = TorchSupport(shape.values // 2, self._device)
        self._reward = TorchSupport(shape.rewards // 2, self._device)
        scaling = None if limit is None else self._vectors.scaling(limit)
        self._sequences = Sequences(self.settings, self._encoder, self._upload, scaling)
        self._reanalysis = None
        if self.settings.reanalyze:
            self._reanalysis = Reanalysis(self.settings, environment)
        # The first step counts whole, the unrolled ones together as much.
        scale = [1.0] + [1.0 / self.settings.unroll] * self.settings.unroll
        self._scale = torch.tensor(scale, device=self._device)[:, None]

    def _first_values(self, seed: int) -> F32:
        """As they are drawn, but 0 for what says rewards, values and priors at first."""
        flat = super()._first_values(seed)
        for name, first in (("dynamics", self.settings.latent), ("prediction", 0)):
            for last in self._layout.groups[name].parameters[-2:]:
                last.view(flat)[:, first:] = 0
        return flat

    # --- updates -------------------------------------------------------------------------------

    def _learn(self, batch: DrawnBatch) -> Loss:
        self._vectors.clear()
        assert isinstance(batch, SequenceBatch), "a model is unrolled over sequences"
        if self._reanalysis is not None:
            parameters = self.policy_parameters()
            batch = self._reanalysis.renew(batch, parameters, self._updates, self._rng)
        found = self.judge_sequences(self._sequences.take(batch, self._rng))
        self._vectors.differentiate(found.losses)
        return found

    def judge_sequences(self, batch: TorchSequences) -> Loss:
        """The loss, which is one for all three networks."""
        settings, unroll = self.settings, self.settings.unroll
        value = self._wanted(batch)
        logits, values, rewards = self._unrolled(batch)
        scale = self._scale
        policy_loss = -(batch.policy * torch.log_softmax(logits, -1)).sum(-1)
        policy_loss = (policy_loss * batch.played * scale).sum(0)
        value_loss = (self._value.loss(values, value) * batch.known * scale).sum(0)
        reward_loss = (self._reward.loss(rewards, batch.reward) * batch.known[:unroll]).mean(0)
        loss = (
            policy_loss + settings.value_weight * value_loss + settings.reward_weight * reward_loss
        )
        loss = (batch.weight * loss).mean()
        found = self._value.decode(values[0].detach())
        metrics = {
            "policy_loss": policy_loss.mean(),
            "value_loss": value_loss.mean(),
            "reward_loss": reward_loss.mean(),
            "value": found.mean(),
            "beyond_support": self._value.beyond(value) + self._reward.beyond(batch.reward),
        }
        return Loss(dict.fromkeys(self.acting, loss), (found - value[0]).abs(), metrics)

    @torch.no_grad()
    def _wanted(self, batch: TorchSequences) -> Tensor:
        """Values ``[K + 1, N]``, by rewards and what follows them."""
        model = self._slow_model
        later = self._value.decode(model.predict(model.represent(batch.later))[1])
        later = later.view_as(batch.factor)
        if self.settings.bootstrap == "search":
            later = torch.where(batch.searched > 0, batch.root_value, later)
        return batch.reward_sum + batch.factor * later

    def _unrolled(self, batch: TorchSequences) -> tuple[Tensor, Tensor, Tensor]:
        """What the model says along the actions.

        Returns:
            Logits ``[K + 1, N, A]``, and what says values, of each state; what says the rewards on
            the way, ``[K, N, ...]``.
        """
        actions = functional.one_hot(batch.action, self._choices).float()
        latents, rewards = [self._model.represent(batch.obs)], []
        entering = latents[0]
        for action in actions.unbind():
            latent, reward = self._model.follow(entering, action)
            latents.append(latent)
            rewards.append(reward)
            entering = torch.lerp(latent.detach(), latent, PASSED_ON)
        logits, values = self._model.predict(torch.cat(latents))
        shape = *batch.factor.shape, -1
        return logits.view(shape), values.view(shape), torch.stack(rewards)
