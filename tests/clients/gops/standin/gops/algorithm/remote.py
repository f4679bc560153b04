"""Algorithms whose gradients may be computed elsewhere."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from gops.algorithm.base import AlgorithmBase


class Remote(AlgorithmBase):
    """One whose gradients may be computed elsewhere."""

    def get_remote_update_info(
        self, data: dict[str, Tensor], iteration: int
    ) -> tuple[dict[str, float], dict[str, Any]]:
        figures = self.compute(data)
        gradients = [each.grad for each in self.networks.parameters()]  # the tensors themselves
        return figures, {"gradients": gradients, "iteration": iteration}

    def remote_update(self, update_info: dict[str, Any]) -> None:
        for each, gradient in zip(
            self.networks.parameters(), update_info["gradients"], strict=True
        ):
            each.grad = gradient
        self.apply(update_info["iteration"])
