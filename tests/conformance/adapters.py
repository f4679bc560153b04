"""Every adapter of environments, and what makes batches with one; add yours to `ADAPTERS`."""

from __future__ import annotations

from typing import Any

import gymnasium
import pytest
from msgspec.structs import replace

from fast_core.config import EnvironmentConfig
from fast_core.envs import EnvBatch
from fast_core.envs.stepping.gymnasium_batch import GymnasiumBatch
from fast_core.envs.stepping.vector_batch import VectorBatch
from fast_core.errors import ConfigError
from tests.envs.driver import Driver, random_actions
from tests.envs.vector_toys import as_vector


def vectorised(config: EnvironmentConfig, **kwargs: Any) -> VectorBatch:
    """The environment's own vectorised form, or one that is made of it, with single resets."""
    vector = as_vector(config)
    if gymnasium.spec(config.id).vector_entry_point is not None:
        vector = replace(vector, id=config.id)
    return VectorBatch(vector, **kwargs)


def in_place(config: EnvironmentConfig, **kwargs: Any) -> VectorBatch:
    """A backend of somebody's own, which writes where it is told to."""
    return VectorBatch(replace(config, backend="tests.envs.own_backend:InPlace"), **kwargs)


ADAPTERS: dict[str, Any] = {
    "gymnasium": GymnasiumBatch,
    "gymnasium_vector": vectorised,
    "in_place": in_place,
}
# What only adapters do that call each environment themselves: a library that steps all at once
# does not say which of them raised, and has its own ways with what they return.
in_turn = pytest.mark.parametrize("make", ["gymnasium"], indirect=True)


class Maker:
    """Makes batches with one adapter and closes them."""

    def __init__(self, adapter: Any) -> None:
        self.adapter = adapter
        self.made: list[EnvBatch] = []

    def __call__(self, config: EnvironmentConfig, envs: int = 3, **kwargs: Any) -> EnvBatch:
        kwargs = {"seed": 1, "shard": 2, "envs": envs} | kwargs
        singly = config.frame_skip > 1 or (config.action_mask or "").startswith("info.")
        if singly and self.adapter is not GymnasiumBatch:
            with pytest.raises(ConfigError, match=r"needs environment\.backend gymnasium"):
                self.adapter(config, **kwargs)
            pytest.skip("refused, as it must be by adapters that do not step each themselves")
        batch: EnvBatch = self.adapter(config, **kwargs)
        self.made.append(batch)
        return batch

    def run(self, config: EnvironmentConfig, steps: int, envs: int = 3, **kwargs: Any) -> Driver:
        batch = self(config, envs, **kwargs)
        return Driver(batch, envs).run(random_actions(batch, envs, steps))

    def play(self, config: EnvironmentConfig, steps: int, envs: int = 3) -> Driver:
        """Take random actions that masks allow."""
        driver = Driver(self(config, envs), envs)
        driver.play(steps)
        return driver
