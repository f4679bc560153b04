"""Samplers by name."""

from __future__ import annotations

from typing import Any

from gops.create_pkg.making import make
from gops.trainer.sampler.off_sampler import OffSampler
from gops.trainer.sampler.on_sampler import OnSampler

_KINDS: dict[str, Any] = {"off_sampler": OffSampler, "on_sampler": OnSampler}


def register(sampler_name: str, entry_point: Any) -> None:
    _KINDS[sampler_name] = entry_point


def create_sampler(**kwargs: Any) -> Any:
    return make(_KINDS[kwargs["sampler_name"]], "num_samplers", **kwargs)
