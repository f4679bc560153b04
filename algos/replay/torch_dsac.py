"""DSAC's and DSAC-T's losses in torch, for networks of one's own; see `dsac`."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from fast_core.algos.replay.dsac import FARTHEST, LEAST_VARIANCE
from fast_core.algos.replay.torch_algorithm import TorchBatch
from fast_core.algos.replay.torch_box import TorchEntropy


class TorchDSAC(TorchEntropy):
    """Critics that say mean and deviation of the return."""

    followed: ClassVar[tuple[str, ...]] = ("critics", "policy")

    def _wanted(self, batch: TorchBatch) -> Tensor:
        """Targets ``[2, N]``: of the next return's mean, and of a sample of it."""
        target = self.target
        seen = target.see(batch.next_obs)
        action, log_prob = self._sample(target("policy", seen))
        value = target("critics", seen, action)
        mean, std = value[..., 0], functional.softplus(value[..., 1])
        least = mean.argmin(0, keepdim=True)
        mean, std = mean.gather(0, least)[0], std.gather(0, least)[0]
        noise = self.normal(len(mean)).clamp(-float(FARTHEST), float(FARTHEST))
        soft = torch.stack([mean, mean + noise * std]) - self._temperature * log_prob
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
        mean, std = value[..., 0], functional.softplus(value[..., 1])
        with torch.no_grad():
            error, variance = mean - wanted, std.square()
            factor = weight / len(weight)
            factor = factor if scale is None else factor * scale
            distance = (sample - mean).clamp(-bound, bound)
            cubic = (variance * std + offset).clamp(min=LEAST_VARIANCE**1.5)
            of_mean = factor * error / (variance + offset).clamp(min=LEAST_VARIANCE)
            of_std = factor * (variance - distance.square()) / cubic
            metrics["critic_loss"] = 0.5 * error.square().mean()
            metrics["value"], metrics["value_std"] = mean[0].mean(), std[0].mean()
        return (of_mean * mean + of_std * std).sum(), error.abs().mean(0)


class TorchDSACT(TorchDSAC):
    """With gradients bounded and scaled by running averages of deviation and variance."""

    statistics: ClassVar[tuple[str, ...]] = ("averages",)

    def _critic_loss(
        self, value: Tensor, wanted: Tensor, weight: Tensor, metrics: dict[str, Tensor]
    ) -> tuple[Tensor, Tensor]:
        settings, averages = self.settings, self.online.numbers("averages")
        with torch.no_grad():
            std = functional.softplus(value[..., 1])
            seen = torch.stack([std.mean(1), std.square().mean(1)], 1)
            assert averages.grad is not None, "averages are a part"
            averages.grad.copy_(seen)
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
        averages = self.online.numbers("averages")
        assert averages.grad is not None, "averages are a part"
        self._modular.keep_statistic("averages", self._averaged(averages.grad).reshape(-1))
        super()._step(policy)
