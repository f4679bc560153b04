"""DSAC with two critics and bounds from average deviations, which no state dict carries."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from gops.algorithm import dsac


class ApproxContainer(dsac.ApproxContainer):
    critics = 2


class DSACT(dsac.DSAC):
    container = ApproxContainer

    def __init__(self, index: int = 0, **kwargs: Any) -> None:
        super().__init__(index, **kwargs)
        self.mean_std: list[Tensor | None] = [None, None]

    def bound(self, number: int, deviation: Tensor) -> Tensor:
        mean, before = deviation.mean(), self.mean_std[number]
        now = mean if before is None else before + self.tau * (mean - before)
        self.mean_std[number] = now
        return 3.0 * now
