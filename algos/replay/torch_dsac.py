"""DSAC's and DSAC-T's losses in torch; see `dsac`."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from fast_core.algos.replay.dsac import FARTHEST, LEAST_VARIANCE
from fast_core.algos.replay.torch_algorithm import TorchBatch
from fast_core.algos.replay.torch_box import TorchEntropy, along


class TorchDSAC(TorchEntropy):
    """Critics that say mean and deviation of the return."""

    followed: ClassVar[tuple[str, ...]] = ("critics", "policy")

    def _wanted(self, batch: TorchBatch) -> Tensor:
        """Targets ``[2, N]``: of the next return's mean, and of a sample of it."""
        target = self.target
        seen = target.see(batch.next_obs)
        drawn = self._sample(target("policy", seen))
        value = target("critics", seen, drawn.action)
        mean, std = value[..., 0], functional.softplus(value[..., 1])
        least = mean.argmin(0, keepdim=True)
        mean, std = mean.gather(0, least)[0], std.gather(0, least)[0]
        noise = self.normal(len(mean)).clamp(-float(FARTHEST), float(FARTHEST))
        soft = torch.stack([mean, mean + noise * std]) - self._temperature * drawn.log_prob
        return batch.reward + batch.discount * soft

    def _critic_loss(
        self, value: Tensor, wanted: Tensor, weight: Tensor, metrics: dict[str, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """The mean follows sampled returns; the deviation their bounded distance from it."""
        bound = value.new_full((), self.settings.return_bound)
        return self._divergence(value, wanted[1], wanted[1], weight, metrics, bound, None)

    def _divergence(
        self,
        value: Tensor,
        wanted: Tensor,
        sample: Tensor,
        weight: Tensor,
        metrics: dict[str, Tensor],
        bound: Tensor,
        scale: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """A loss whose gradient is that of `dsac.distribution_gradient`, and errors ``[N]``."""
        offset = self.settings.variance_offset
        with torch.no_grad():
            mean, raw = value.unbind(-1)
            std = functional.softplus(raw)
            error, variance = mean - wanted, std.square()
            factor = weight / len(weight)
            factor = factor if scale is None else factor * scale
            distance = (sample - mean).clamp(-bound, bound)
            cubic = (variance * std + offset).clamp(min=LEAST_VARIANCE**1.5)
            of_mean = factor * error / (variance + offset).clamp(min=LEAST_VARIANCE)
            of_std = factor * (variance - distance.square()) / cubic
            metrics["critic_loss"] = 0.5 * error.square().mean()
            metrics["value"], metrics["value_std"] = mean[0].mean(), std[0].mean()
            slope = torch.stack([of_mean, of_std * raw.sigmoid()], -1)
        return along(value, slope), error.abs().mean(0)


class TorchDSACT(TorchDSAC):
    """With gradients bounded and scaled by running averages of deviation and variance."""

    statistics: ClassVar[tuple[str, ...]] = ("averages",)

    def _critic_loss(
        self, value: Tensor, wanted: Tensor, weight: Tensor, metrics: dict[str, Tensor]
    ) -> tuple[Tensor, Tensor]:
        settings = self.settings
        with torch.no_grad():
            std = functional.softplus(value[..., 1])
            seen = torch.stack([std.mean(1), std.square().mean(1)], 1)
            self._written("averages").copy_(seen)
            average = self._averaged(seen)
            bound = settings.bound_deviations * average[:, :1]
            metrics["average_std"] = average[0, 0]
        scale = average[:, 1:] + settings.variance_offset
        return self._divergence(value, wanted[0], wanted[1], weight, metrics, bound, scale)

    def _averaged(self, seen: Tensor) -> Tensor:
        """The running averages ``[M, 2]`` with a batch's statistics; the first batch's alone."""
        if self._updates == 0:
            return seen.clone()
        return torch.lerp(
            self.online.numbers("averages").detach(), seen, self.settings.average_rate
        )

    def _step(self, policy: bool) -> None:
        averages = self._averaged(self._written("averages"))
        self._vectors.keep_statistic("averages", averages.reshape(-1))
        super()._step(policy)
