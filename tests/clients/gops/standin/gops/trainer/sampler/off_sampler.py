"""Experiences one by one, for a buffer."""

from __future__ import annotations

from gops.trainer.sampler.base import BaseSampler


class OffSampler(BaseSampler):
    pass
