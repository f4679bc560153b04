"""DQN's losses in torch, for networks of one's own; see `dqn`."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from fast_core.algos.nets.distributions import FORBIDDEN
from fast_core.algos.nets.mlp import MlpShape
from fast_core.algos.nets.own_shape import OwnShape
from fast_core.algos.nets_torch.networks import Rows
from fast_core.algos.replay.dqn import DQN
from fast_core.algos.replay.torch_algorithm import Loss, TorchAlgorithm, TorchBatch
from fast_core.algos.replay.torch_networks import Networks, Perceptron
from fast_core.spec import EnvironmentSpec


class TorchDQN(TorchAlgorithm):
    """Deep Q-learning with double targets and dueling outputs."""

    acting: ClassVar[tuple[str, ...]] = ("critics",)

    @classmethod
    def modules(
        cls, settings: Any, environment: EnvironmentSpec, seen: int | OwnShape, seed: int
    ) -> dict[str, nn.Module]:
        """A value for each choice, and one more where there are dueling outputs."""
        assert isinstance(seen, int)
        outputs = environment.action.n + int(settings.dueling)
        hidden = settings.hidden(environment)
        return {"critics": Perceptron(MlpShape(seen, hidden, outputs, settings.activation))}

    @classmethod
    def output(cls, settings: Any, networks: Networks, rows: Rows) -> Tensor:
        """Values ``[B, A]`` of choices."""
        outputs = networks("critics", networks.see(rows))
        if not settings.dueling:
            return outputs
        advantage = outputs[:, 1:]
        return advantage - advantage.mean(1, keepdim=True) + outputs[:, :1]

    def loss(self, batch: TorchBatch) -> Loss:
        """Huber loss of the chosen values."""
        settings = self.settings
        values = self.output(settings, self.online, batch.obs)
        with torch.no_grad():
            later = self.output(settings, self.target, batch.next_obs)
            judge = self.output(settings, self.online, batch.next_obs) if settings.double else later
            best = best_choice(judge, batch.next_obs.mask)
            wanted = batch.reward + batch.discount * pick(later, best)
        value, limit = pick(values, batch.action), settings.huber_threshold
        if limit is None:
            each = 0.5 * (value - wanted).square()
        else:
            each = functional.huber_loss(value, wanted, reduction="none", delta=limit)
        loss = (batch.weight * each).mean()
        metrics = {
            "critic_loss": loss,
            "value": values.detach().amax(1).mean(),
            "epsilon": loss.new_full((), self._exploration()),
        }
        return Loss({"critics": loss}, (value.detach() - wanted).abs(), metrics)

    @property
    def _targets_are_due(self) -> bool:
        return bool((self._updates + 1) % self.settings.target_interval == 0)

    def _exploration(self) -> float:
        """The share of random actions, by the env steps behind the last batch."""
        return DQN.exploration(self.settings, self._updates, self._env_steps)


def best_choice(values: Tensor, mask: Tensor | None) -> Tensor:
    """The allowed choice of largest value in each row ``[N]``."""
    return (values if mask is None else values.masked_fill(~mask, FORBIDDEN)).argmax(1)


def pick(values: Tensor, choice: Tensor) -> Tensor:
    """What belongs to each row's choice: of ``[N, A, ...]``, ``[N, ...]``."""
    return values[torch.arange(len(values), device=values.device), choice]
