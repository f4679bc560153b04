"""DQN's losses in torch; see `dqn`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from fast_core.algorithm import Array
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.nets.mlp import MlpShape
from fast_core.algos.nets.networks import F32
from fast_core.algos.nets_torch.networks import Rows
from fast_core.algos.replay.dqn_config import DQNConfig
from fast_core.algos.replay.torch_algorithm import Loss, TorchAlgorithm, TorchBatch
from fast_core.algos.replay.torch_memory import Picked
from fast_core.algos.replay.torch_networks import (
    Networks,
    Perceptron,
    Streams,
    best_choice,
    pick,
)
from fast_core.algos.replay.vectors import BELOW


class TorchDQN(TorchAlgorithm[DQNConfig]):
    """Deep Q-learning with double targets and dueling outputs."""

    acting: ClassVar[tuple[str, ...]] = ("critics",)

    @classmethod
    def modules(
        cls, settings: DQNConfig, environment: EnvironmentSpec, seen: int
    ) -> dict[str, nn.Module]:
        """A value for each choice, and one more where there are dueling outputs."""
        if settings.streams(environment):
            return {"critics": Streams(settings.shape(environment))}
        outputs = environment.action.n + int(settings.dueling)
        hidden = settings.hidden(environment)
        norm = settings.layer_norm is True
        shape = MlpShape(seen, hidden, outputs, settings.activation, layer_norm=norm)
        return {"critics": Perceptron(shape)}

    @classmethod
    def output(cls, settings: DQNConfig, networks: Networks, rows: Rows | Picked) -> Tensor:
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

    def insight_parameters(self) -> Sequence[Array]:
        """Of the value's stream, where there are two."""
        flat = self._vectors.parameters()
        return [view[:1] for view in self._views(flat, self.acting)] if self._streams else []

    def _acting(self, flat: F32) -> list[F32]:
        """Of all values; of the advantages alone where they have a stream of their own."""
        if not self._streams:
            return super()._acting(flat)
        streams = [view[1:] for view in self._views(flat, self.acting)]
        return [*self._views(flat, BELOW), *streams]

    @property
    def _streams(self) -> bool:
        return isinstance(self.online.parts["critics"], Streams)

    @property
    def _targets_are_due(self) -> bool:
        return (self._updates + 1) % self.settings.target_interval == 0
