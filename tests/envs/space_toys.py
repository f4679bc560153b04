"""Tiny environments with composite observations, several choices at once, and masks."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple


class Robot(gymnasium.Env[Any, Any]):
    """Every leaf of a nested observation says the step; ``drawn`` is what the seed drew.

    The reward is the sum of the action. In step ``at``, ``fault`` is wrong with the observation.
    """

    def __init__(
        self, length: int = 5, fault: str = "", at: int = 3, form: str = "fresh", actions: str = ""
    ) -> None:
        self.observation_space = Dict(
            {
                "camera": Box(0, 255, (2, 3, 1), np.uint8),
                "arm": Dict(
                    {
                        "joints": Box(-np.inf, np.inf, (3,), np.float32),
                        "drawn": Box(0, 1, (), np.float64),
                        "spare": Dict({}),
                    }
                ),
                "absent": Tuple(()),
                "goal": Tuple((Discrete(99, start=-1), MultiDiscrete([99, 99]))),
                "touch": MultiBinary(2),
            }
        )
        self.action_space = {
            "": MultiDiscrete([3, 2, 4], start=[0, 1, -1]),
            "grid": MultiDiscrete([[3, 2], [2, 4]], dtype=np.int32),
            "binary": MultiBinary(3),
        }[actions]
        self.length, self.fault, self.at, self.form = length, fault, at, form
        self.steps = 0
        self.total = 0
        self.shared: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        self.drawn = self.np_random.random()
        return self.observe(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        assert isinstance(action, np.ndarray)
        assert action.dtype == self.action_space.dtype
        self.steps += 1
        reward = float(action.sum())
        action[...] = 0  # an environment may do what it likes with what it is given
        return self.observe(), reward, self.steps >= self.length, False, {}

    def observe(self) -> Any:
        obs: dict[str, Any] = {
            "camera": np.full((2, 3, 1), self.steps, np.uint8),
            "arm": {
                "joints": np.full(3, self.steps, np.float32),
                "drawn": np.float64(self.drawn),
                "spare": {},
            },
            "absent": (),
            "goal": (self.steps, np.full(2, self.steps)),
            "touch": np.full(2, self.steps % 2, np.int8),
        }
        if self.form == "drifting":
            self.total += 1
            obs["goal"] = (obs["goal"][0], np.full(2, self.total))
        if self.steps == self.at:
            obs = _spoiled(obs, self.fault)
        if self.form == "reversed":
            obs["arm"] = OrderedDict(reversed(obs["arm"].items()))
            return OrderedDict(reversed(obs.items()))
        return self._share(obs) if self.form == "shared" else obs

    def _share(self, obs: Any) -> Any:
        """The same objects every time, changed in place."""
        if self.shared is None:
            self.shared = obs
            return obs
        self.shared["camera"][...] = obs["camera"]
        self.shared["arm"]["joints"][...] = obs["arm"]["joints"]
        self.shared["arm"]["drawn"] = obs["arm"]["drawn"]
        self.shared["goal"][1][...] = obs["goal"][1]
        self.shared["goal"] = (obs["goal"][0], self.shared["goal"][1])
        self.shared["touch"][...] = obs["touch"]
        return self.shared


def _spoiled(obs: dict[str, Any], fault: str) -> Any:
    """``obs`` with one thing wrong."""
    arm, goal = obs["arm"], obs["goal"]
    changes: dict[str, Any] = {
        "": {},
        "missing": {"arm": {"joints": arm["joints"], "spare": {}}},
        "dtype": {"camera": obs["camera"].astype(np.int64)},
        "undeclared": {"arm": arm | {"spare": {"x": 0}}},
        "choice": {"goal": (98, goal[1])},
        "choices": {"goal": (goal[0], np.array([5, -1]))},
        "nan": {"arm": arm | {"drawn": np.nan}},
        "inf": {"arm": arm | {"joints": np.array([np.inf, 0, 0], np.float32)}},
    }
    if fault == "array":
        return np.zeros(3, np.float32)
    return obs | changes[fault]


class Doors(gymnasium.Env[Any, Any]):
    """Some doors are shut in each step, and opening a shut one is an error.

    The observation says the step; the mask is a part of it, or of the info. Which doors are shut
    is drawn. The reward is the number of the door, or their sum. ``fault`` is wrong with the mask
    in step ``at``.
    """

    def __init__(
        self,
        where: str = "obs",
        many: bool = False,
        length: int = 6,
        fault: str = "",
        at: int = 2,
        dtype: str = "int8",
    ) -> None:
        self.counts = [3, 2] if many else [4]
        step = Box(0, 99, (2,), np.float32)
        size = sum(self.counts)
        mask = MultiBinary(size) if dtype == "int8" else Box(0, 1, (size,), np.dtype(dtype).type)
        self.observation_space = {
            "obs": Dict({"step": step, "open": mask}),
            "info": step,
            "info of dict": Dict({"step": step}),
        }[where]
        self.action_space = MultiDiscrete([3, 2], start=[1, 0]) if many else Discrete(4, start=1)
        self.where, self.many, self.length, self.dtype = where, many, length, dtype
        self.fault, self.at = fault, at
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        self.draw()
        return self.returned()

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        chosen = np.atleast_1d(action) - ([1, 0] if self.many else [1])
        for mask, choice in zip(self.masks, chosen, strict=True):
            if not mask[choice]:
                raise ValueError(f"door {choice} is shut")
        self.steps += 1
        self.draw()
        obs, info = self.returned()
        return obs, float(np.sum(action)), self.steps >= self.length, False, info

    def draw(self) -> None:
        self.masks = [self.np_random.random(count) < 0.5 for count in self.counts]
        for mask in self.masks:
            mask[self.np_random.integers(len(mask))] = True

    def returned(self) -> Any:
        step = np.full(2, self.steps, np.float32)
        mask: Any = np.concatenate(self.masks).astype(self.dtype)
        info = {}
        if self.steps == self.at:
            if self.fault == "empty":
                mask[-self.counts[-1] :] = 0
            elif self.fault == "size":
                mask = mask[1:]
            elif self.fault == "float":
                mask = mask.astype(np.float32)
        if self.where != "obs" and not (self.steps == self.at and self.fault == "missing"):
            info["doors"] = mask
        if self.where == "info":
            return step, info
        parts = {"step": step}
        if self.where == "obs":
            parts["open"] = mask
        return parts, info


class Corridors(Doors):
    """Episodes of doors, as many as the seed draws."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        first = super().reset(seed=seed)
        self.length = int(self.np_random.integers(3, 12))
        return first


class Ticks(gymnasium.Env[Any, Any]):
    """Observes its own steps as an image; one reward for each, ends after ``length``."""

    def __init__(self, length: int = 7, end: str = "terminated", bounds: str = "same") -> None:
        low = np.zeros((2, 2), np.uint8)
        high = np.full((2, 2), 200, np.uint8)
        if bounds == "apart":
            high[1, 1] = 100
        self.observation_space = Box(low, high, (2, 2), np.uint8)
        self.action_space = Box(-1.0, 1.0, (1,), np.float32)
        self.length, self.end = length, end
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        self.offset = int(self.np_random.integers(50))
        return self.observe(), {}

    def step(self, action: Any) -> Any:
        assert -1 <= action[0] <= 1, action
        self.steps += 1
        reward = float(action[0]) + self.steps
        action[0] = 9.0
        ends = self.steps >= self.length
        terminated, truncated = ends and self.end == "terminated", ends and self.end == "truncated"
        return self.observe(), reward, terminated, truncated, {}

    def observe(self) -> Any:
        return np.full((2, 2), self.steps + self.offset, np.uint8)


for _each in (Corridors, Doors, Robot, Ticks):
    gymnasium.register(f"FastLoopTest/{_each.__name__}-v0", entry_point=_each)
