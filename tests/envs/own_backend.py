"""Backends of one's own, as an author would write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.vector.utils import concatenate, create_empty_array
from msgspec.structs import replace
from numpy.typing import NDArray

from fast_core.config import EnvironmentConfig, Values
from fast_core.envs.backends import Backend, VectorStep
from fast_core.envs.description import describe
from fast_core.envs.making import make_env
from fast_core.envs.records import assign, rows_of

Flags = NDArray[np.bool_]


class Turns(Backend):
    """Environments of `gymnasium.make`, one after the other."""

    seeded = True
    takes = frozenset({"attributes", "reset_options"})

    def __init__(self, config: EnvironmentConfig, envs: int, *, draws: bool = False) -> None:
        del draws
        single = replace(config, backend="gymnasium")
        self.envs = [make_env(single) for _ in range(envs)]
        self.space, self.options = self.envs[0].observation_space, config.reset_options
        spec = self.envs[0].spec
        limit = spec.max_episode_steps if spec else None
        if "_max_episode_steps" in config.attributes:
            limit = None  # each environment keeps its own
        self.spec = describe(config, self.space, self.envs[0].action_space, limit)

    @classmethod
    def alone(cls, config: EnvironmentConfig) -> EnvironmentConfig:
        return replace(config, backend="gymnasium")

    def start(self, seeds: Sequence[int]) -> object:
        return self.begin(np.arange(len(self.envs)), seeds, forced=True)

    def begin(self, places: NDArray[np.int64], seeds: Sequence[int], *, forced: bool) -> object:
        return self.batched(
            [
                self.envs[place].reset(seed=seed, options=self.options)[0]
                for place, seed in zip(places, seeds, strict=True)
            ]
        )

    def batched(self, obs: Sequence[object]) -> object:
        return concatenate(self.space, obs, create_empty_array(self.space, len(obs)))  # type: ignore[arg-type]

    def stepped(self, action: Any) -> list[list[Any]]:
        results = [env.step(taken) for env, taken in zip(self.envs, list(action), strict=True)]
        return [list(each) for each in zip(*results, strict=True)]

    def step(self, action: Any) -> VectorStep:
        obs, reward, terminated, truncated, info = self.stepped(action)
        ends = np.array([terminated, truncated])
        return VectorStep(self.batched(obs), np.array(reward), *ends, info=together(info))

    def set_attributes(self, values: Sequence[Values]) -> None:
        for env, given in zip(self.envs, values, strict=True):
            for name, value in given.items():
                env.set_wrapper_attr(name, value)

    def close(self) -> None:
        for env in self.envs:
            env.close()


class InPlace(Turns):
    """The same, which write where they are told to."""

    in_place = True

    def step(self, action: Any) -> VectorStep:
        raise AssertionError("it steps in place")

    def step_into(
        self,
        action: Any,
        *,
        obs: Any,
        reward: NDArray[np.float64],
        terminated: Flags,
        truncated: Flags,
    ) -> Mapping[str, object]:
        given, reward[:], terminated[:], truncated[:], info = self.stepped(action)
        for row, each in zip(
            rows_of(obs, self.spec.tree, self.spec.action_mask), given, strict=True
        ):
            assign(row, each)
        return together(info)


def together(infos: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Numbers of the infos of all environments, with marks of those who gave them."""
    names = {name for info in infos for name in info}
    found: dict[str, object] = {}
    for name in names:
        values = [info.get(name) for info in infos]
        found[name] = np.array([value if isinstance(value, int | float) else 0 for value in values])
        found[f"_{name}"] = np.array([name in info for info in infos])
    return found
