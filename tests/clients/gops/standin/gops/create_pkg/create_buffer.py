"""Buffers by name."""

from __future__ import annotations

from typing import Any

from gops.create_pkg.making import make
from gops.trainer.buffer.replay_buffer import ReplayBuffer


def create_buffer(**kwargs: Any) -> Any:
    if kwargs.get("buffer_name") is None or kwargs["trainer"].startswith("on"):
        return None
    return make(ReplayBuffer, "num_buffers", **kwargs)
