"""Tiny environments whose every value can be worked out by hand."""

from __future__ import annotations

import ctypes
import os
import random
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, Sequence


class Counter(gymnasium.Env[Any, Any]):
    """Observes (step, what reset drew, what the step drew); the reward is the step."""

    closed: list[int] = []

    def __init__(
        self,
        length: int = 5,
        end: str = "terminated",
        reward: str = "float",
        raise_at: int | None = None,
        nan_at: int | None = None,
        nan_in: str = "obs",
        bad_at: int | None = None,
        bad: str = "",
        fail_in: str = "",
    ) -> None:
        if fail_in == "init":
            raise RuntimeError("no licence")
        self.observation_space = Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = Discrete(3, start=1)
        self.length, self.end = length, end
        self.reward_form = reward
        self.raise_at, self.nan_at, self.nan_in = raise_at, nan_at, nan_in
        self.bad_at, self.bad = bad_at, bad
        self.fail_in = fail_in
        self.steps = 0
        self.total_steps = 0
        self.drawn = 0.0
        self.actions: list[Any] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        if self.fail_in == "reset":
            raise RuntimeError("no map")
        self.steps = 0
        self.drawn = float(np.float32(self.np_random.random()))
        obs = self.observe(0.0)
        if self.nan_in == "reset" and (self.nan_at is None or self.total_steps == self.nan_at):
            self.total_steps += 1
            obs[1] = np.nan
        return obs, {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        self.steps += 1
        self.total_steps += 1
        self.actions.append(action)
        if self.steps == self.raise_at:
            raise ValueError(f"bad joint {7}")
        obs = self.observe(self.np_random.random())
        reward: Any = float(self.steps)
        if self.total_steps == self.nan_at:
            if self.nan_in == "obs":
                obs[1] = -np.inf
            elif self.nan_in == "reward":
                reward = np.nan
            elif self.nan_in == "large reward":
                reward = 1e39
            elif self.nan_in == "nothing":  # as large as it may be
                obs[1], reward = -3e38, 3e38
        if self.steps == self.bad_at:
            obs = {
                "shape": obs[:2],
                "dtype": obs.astype(np.int64),
                "list": obs.tolist(),
                "broadcast": obs[:1],
            }[self.bad]
        ends = self.steps >= self.length
        terminated = ends and self.end in ("terminated", "both")
        truncated = ends and self.end in ("truncated", "both")
        if self.steps == 3 and self.end.startswith("late"):
            terminated = {"late text": "False", "late None": None}.get(self.end, terminated)
            truncated = {"late array": np.zeros(2, np.bool_)}.get(self.end, truncated)
        return obs, self.as_form(reward), terminated, truncated, {}

    def observe(self, noise: float) -> Any:
        return np.array([self.steps, self.drawn, noise], np.float32)

    def as_form(self, reward: float) -> Any:
        forms: dict[str, Callable[[], Any]] = {
            "float": lambda: reward,
            "int": lambda: int(reward),
            "scalar": lambda: np.float64(reward),
            "float32": lambda: np.float32(reward),
            "0-d": lambda: np.array(reward),
            "(1,)": lambda: np.array([reward]),
            "(2,)": lambda: np.array([reward, reward]),
            "text": lambda: "one",
            "late text": lambda: "2.5" if reward == 3.0 else reward,
            "late None": lambda: None if reward == 3.0 else reward,
        }
        return forms[self.reward_form]()

    def close(self) -> None:
        Counter.closed.append(id(self))
        if self.fail_in == "close":
            raise RuntimeError("window gone")


class Sparse(Counter):
    """The reward of step ``k`` is ``rewards[k - 1]``, and 0 beyond them."""

    def __init__(self, rewards: list[float], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rewards = rewards

    def as_form(self, reward: float) -> Any:
        if not np.isfinite(reward):
            return reward
        return self.rewards[self.steps - 1] if self.steps <= len(self.rewards) else 0.0


class Uneven(Counter):
    """Its episodes have 1 to ``length`` steps more, as each reset draws."""

    def __init__(self, length: int = 4, **kwargs: Any) -> None:
        super().__init__(length=length, **kwargs)
        self.most = length

    def observe(self, noise: float) -> Any:
        self.length = 2 + int(self.most * self.drawn)
        return super().observe(noise)


class Lone(Counter):
    """Can be there once in a process, as an emulator that has global memory."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30, "one_per_process": True}
    there: list[int] = []

    def __init__(self, render_mode: str | None = None, **kwargs: Any) -> None:
        if os.getpid() in Lone.there:
            raise RuntimeError("there is one in this process")
        super().__init__(**kwargs)
        self.render_mode = render_mode
        Lone.there.append(os.getpid())

    def render(self) -> Any:
        return np.full((20, 30, 3), 10 * self.steps, np.uint8)

    def close(self) -> None:
        Lone.there.remove(os.getpid())


class Late(Counter):
    """Raises in its 13th step since it was made."""

    def step(self, action: Any) -> Any:
        if self.total_steps == 12:
            raise KeyError("gone")
        return super().step(action)


class Numbered(Counter):
    """Observes how many were made before it."""

    made = 0

    def __init__(self) -> None:
        super().__init__()
        self.number = Numbered.made
        Numbered.made += 1

    def observe(self, noise: float) -> Any:
        return np.array([self.steps, self.number, 0.0], np.float32)


class Mutated(Counter):
    """Returns one array of the class each time, changed in place."""

    buffer = np.zeros(3, np.float32)

    def observe(self, noise: float) -> Any:
        Mutated.buffer[:] = super().observe(noise)
        return Mutated.buffer


class Levels(Counter):
    """Observes the level that reset was asked for, and takes it out of the options."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        obs, info = super().reset(seed=seed)
        self.level = (options or {}).pop("level", -1)
        obs[1] = self.level
        return obs, info


class Pulled(Counter):
    """Observes its attribute ``pull`` as it was at the reset."""

    def __init__(self, uneven: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.uneven = uneven
        self.pull: Any = 1.0

    def observe(self, noise: float) -> Any:
        if self.steps == 0:
            if self.uneven:
                self.length = 2 + int(5 * self.drawn)
            self.began_with = float(np.sum(self.pull))
            if isinstance(self.pull, list):
                self.pull.clear()  # what it is given is its own
        return np.array([self.steps, self.began_with, self.drawn], np.float32)


class Map(Counter):
    """Draws a map when it is constructed, from both global generators."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.map = np.random.random() + random.random()  # noqa: NPY002

    def observe(self, noise: float) -> Any:
        return np.array([self.steps, self.map, 0.0], np.float32)


class NativeMap(Counter):
    """Draws a map when it is constructed, from a generator of C."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.map = ctypes.CDLL(None).rand()

    def observe(self, noise: float) -> Any:
        return np.array([self.steps, self.map, 0.0], np.float32)


class Unrepeatable(Counter):
    """Takes its noise from a global generator."""

    def observe(self, noise: float) -> Any:
        return np.array([self.steps, 0.0, random.random()], np.float32)


class Drifting(Counter):
    """Carries something over from one episode to the next, also past a seeded reset."""

    def observe(self, noise: float) -> Any:
        return np.array([self.steps, self.total_steps, 0.0], np.float32)


class Typed(gymnasium.Env[Any, Any]):
    """Counts in observations of any shape and dtype, and adds up its actions."""

    def __init__(self, shape: list[int], dtype: str, length: int = 4) -> None:
        high = 200 if dtype == "uint8" else 1000
        self.observation_space = Box(0, high, tuple(shape), np.dtype(dtype).type)
        self.action_space = Box(-1.0, 1.0, (2,), np.float64)
        self.length = length
        self.sum = np.zeros(2)
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        self.sum = np.zeros(2)
        return self.observe(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        self.steps += 1
        self.sum += action
        action += 1.0  # an environment may do what it likes with what it is given
        return self.observe(), float(self.sum.sum()), False, self.steps >= self.length, {}

    def observe(self) -> Any:
        space = self.observation_space
        return np.full(space.shape, self.steps, space.dtype)


class Rooms(gymnasium.Env[Any, Any]):
    """Observes a plain integer."""

    def __init__(self, room: str = "int") -> None:
        self.observation_space = Discrete(6)
        self.action_space = Discrete(2)
        self.room = room

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return 0, {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        kinds: dict[str, Any] = {"int": int, "int64": np.int64, "0-d": np.array, "float": float}
        return kinds[self.room](self.steps), 0.0, self.steps == 5, False, {}


class Unsupported(Rooms):
    """Has a space that FastLoop does not support."""

    def __init__(self, which: str = "observation") -> None:
        super().__init__()
        if which == "observation":
            self.observation_space = Dict({"rooms": Sequence(Discrete(6))})
        else:
            self.action_space = Dict({"room": Discrete(6)})


for _each in (
    Counter,
    Drifting,
    Late,
    Levels,
    Lone,
    Map,
    Mutated,
    NativeMap,
    Numbered,
    Pulled,
    Rooms,
    Sparse,
    Typed,
    Uneven,
    Unrepeatable,
    Unsupported,
):
    gymnasium.register(f"FastLoopTest/{_each.__name__}-v0", entry_point=_each)
