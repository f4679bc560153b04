"""Quantile regression DQN as an algorithm of one's own: its networks and its loss, in torch."""

import torch
from torch import Tensor, nn

from examples.qrdqn import QRDQNConfig
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.replay.torch_algorithm import (
    Loss,
    Networks,
    Rows,
    TorchAlgorithm,
    TorchBatch,
    best_choice,
    pick,
)


class QRDQN(TorchAlgorithm[QRDQNConfig]):
    """Moves quantiles of returns to those of double-DQN targets: algorithm 1 of the paper."""

    acting = ("critics",)

    @classmethod
    def modules(
        cls, settings: QRDQNConfig, environment: EnvironmentSpec, seen: int
    ) -> dict[str, nn.Module]:
        """One network, on what is seen."""
        first = nn.Linear(seen, settings.hidden)
        last = nn.Linear(settings.hidden, environment.action.n * settings.quantiles)
        return {"critics": nn.Sequential(first, nn.ReLU(), last)}

    @classmethod
    def output(cls, settings: QRDQNConfig, networks: Networks, rows: Rows) -> Tensor:
        """Policies choose by the mean of the quantiles: ``[B, choice]``."""
        return cls.quantiles(settings, networks, rows).mean(2)

    @classmethod
    def quantiles(cls, settings: QRDQNConfig, networks: Networks, rows: Rows) -> Tensor:
        """``[B, choice, quantile]``."""
        found = networks("critics", networks.see(rows))
        return found.unflatten(1, (-1, settings.quantiles))

    def loss(self, batch: TorchBatch) -> Loss:
        """The quantile Huber loss."""
        settings, reward, discount = self.settings, batch.reward, batch.discount
        with torch.no_grad():
            judged = self.output(settings, self.online, batch.next_obs)
            later = self.quantiles(settings, self.target, batch.next_obs)
            best = best_choice(judged, batch.next_obs.mask)
            wanted = reward[:, None] + discount[:, None] * pick(later, best)
        found = pick(self.quantiles(settings, self.online, batch.obs), batch.action)
        error = wanted[:, None, :] - found[:, :, None]  # [N, quantile, target]
        huber = torch.where(error.abs() < 1, 0.5 * error.square(), error.abs() - 0.5)
        share = (torch.arange(settings.quantiles, device=error.device) + 0.5) / settings.quantiles
        asymmetry = (share[:, None] - (error.detach() < 0).float()).abs()
        loss = (batch.weight * (asymmetry * huber).mean(2).sum(1)).mean()
        distance = (wanted.mean(1) - found.mean(1)).abs()  # with replay.prioritized, rows' weight
        return Loss({"critics": loss}, distance, {"critic_loss": loss, "value": found.mean()})
