"""The tasks of `benchmarks.gops`, as environments of GOPS's and as Gymnasium's.

`gops` is GOPS itself or the package that stands in for it, whichever can be imported. GOPS's
samplers in other processes know these environments because their class is of this module.
"""

from __future__ import annotations

from typing import Any

import gops
import gymnasium
import numpy as np
from gops.create_pkg import create_env as environments
from gops.create_pkg import create_sampler as samplers
from gops.trainer.sampler.off_sampler import OffSampler

from benchmarks.gops import newest

SAMPLER = "sampler_of_gymnasium"
CARTPOLE = "gym_cartpoleconti"
IS_GOPS = hasattr(gops, "__version__")
Info = dict[str, Any]


# What GOPS calls them.
GOPS_IDS = {
    "cartpole": CARTPOLE if IS_GOPS else "gymnasium_cartpole",
    "halfcheetah": "gymnasium_halfcheetah",
}


class Cartpole(gymnasium.Env[Any, Any]):
    """GOPS's continuous cart-pole."""

    def __init__(self) -> None:
        self._env = environments.create_env(env_id=CARTPOLE)
        obs, box = self._env.observation_space, self._env.action_space
        self.observation_space = gymnasium.spaces.Box(obs.low, obs.high, dtype=np.float32)
        self.action_space = gymnasium.spaces.Box(box.low, box.high, dtype=np.float32)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """As Gymnasium has it."""
        if seed is not None:
            self._env.seed(seed)
        obs, _ = self._env.reset()
        return obs, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        """As Gymnasium has it, with two flags for one and a note."""
        obs, reward, done, info = self._env.step(action)
        truncated = bool(info.get("TimeLimit.truncated", False))
        return obs, float(reward), bool(done) and not truncated, truncated, {}


class OldGym:
    """A task of Gymnasium's as Gym 0.23 has it, with actions in [-1, 1]."""

    def __init__(self, name: str) -> None:
        """Make the one of this id."""
        self._env: gymnasium.Env[Any, Any] = gymnasium.make(name)
        self._seed: int | None = None
        box = self._env.action_space
        assert isinstance(box, gymnasium.spaces.Box)
        self._low, self._size = box.low, box.high - box.low
        self.observation_space = self._env.observation_space
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, box.shape, np.float32)
        self.metadata, self.reward_range = self._env.metadata, (-np.inf, np.inf)

    def seed(self, seed: int) -> None:
        """For the next reset."""
        self._seed = seed

    def reset(self) -> tuple[Any, Info]:
        """As GOPS has it."""
        seed, self._seed = self._seed, None
        obs, info = self._env.reset(seed=seed)
        return obs.astype(np.float32), info

    def step(self, action: Any) -> tuple[Any, float, bool, Info]:
        """As Gym 0.23 has it."""
        scaled = self._low + (action + 1.0) / 2.0 * self._size
        obs, reward, terminated, truncated, info = self._env.step(scaled.astype(np.float32))
        info["TimeLimit.truncated"] = truncated and not terminated
        return obs.astype(np.float32), float(reward), terminated or truncated, info


class Sampler(OffSampler):  # type: ignore[misc]  # of a package that isn't on the index
    """GOPS's own."""


def _cartpole(**kwargs: Any) -> OldGym:
    return OldGym(newest("InvertedPendulum"))


def _halfcheetah(**kwargs: Any) -> OldGym:
    return OldGym(newest("HalfCheetah"))


environments.register(env_id="gymnasium_cartpole", entry_point=_cartpole)
environments.register(env_id="gymnasium_halfcheetah", entry_point=_halfcheetah)
samplers.register(sampler_name=SAMPLER, entry_point=Sampler)
