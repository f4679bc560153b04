"""Gymnasium's vectorised environments: the environment's own ``vector_entry_point``."""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec, load_env_creator
from gymnasium.vector import AutoresetMode, VectorEnv
from msgspec.structs import replace
from numpy.typing import NDArray

from fast_core.algorithm import Array
from fast_core.config import EnvironmentConfig, Values
from fast_core.envs.backends.backend import (
    KEYS,
    Backend,
    VectorStep,
    refuse_deciding_twice,
    single_frames,
    without_stack,
)
from fast_core.envs.batched import rows_at
from fast_core.envs.description import describe
from fast_core.envs.drawing.drawable import Drawable
from fast_core.envs.drawing.made_to_draw import make_to_draw
from fast_core.envs.making import explaining, layers, registered
from fast_core.errors import ConfigError

Seeds = Sequence[int]
_VECTOR_ONLY = ("autoreset_mode", "num_threads")
_SCALAR = "Use environment.backend: gymnasium."
_LIMIT = "_max_episode_steps"  # of Gymnasium's TimeLimit
# In this order: with Disabled every episode has its own seed, and NextStep spends a step on each.
_MODES = (AutoresetMode.DISABLED, AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP)
# In place of one that can only reset in the next step.
_RESETTABLE = {
    "gymnasium.envs.classic_control.cartpole:CartPoleVectorEnv": (
        "fast_core.envs.backends.cartpole:CartPoles"
    )
}


class GymnasiumVector(Backend):
    """`Backend` over `gymnasium.make_vec` with the environment's own vectorised form.

    Gymnasium has three ways to reset. With *Disabled* we do, with a mask and a seed for each
    episode. With *SameStep* the environment does, within the step that ends an episode. With
    *NextStep*, the default, it does so in the step after, whose action it ignores: that step is
    no transition, and it can't be taken for one environment alone, so `VectorStep.began` says
    where it was; for Gymnasium's CartPole there is a substitute, `CartPoles`. The first of these
    modes that the constructor takes as ``autoreset_mode`` is used, unless ``environment.kwargs``
    names one.
    """

    takes = frozenset(KEYS)

    def __init__(self, config: EnvironmentConfig, envs: int, *, draws: bool = False) -> None:
        """Make them, so that they draw themselves if ``draws`` says so and they can.

        Raises:
            ConfigError: It has no vectorised form, or one that doesn't say how it resets.
            Exception: Whatever its constructor raises.
        """
        spec = registered(config)
        self._envs, self._options = envs, config.reset_options
        make = partial(_make, spec, envs)
        made, self._why_not = (
            make_to_draw(config, make, spec.vector_entry_point) if draws else (make(config), "")
        )
        self._env, kwargs = made
        self._apart = "render_mode" not in config.kwargs
        self._drawn: Any = None  # pictures of all, until the next step or reset
        self._single = single_frames(config) and kwargs.get("stack_num") == 1
        try:
            mode = _mode(self._env, config)
            self.partial = mode == AutoresetMode.DISABLED
            self._late = mode == AutoresetMode.NEXT_STEP
            limit = kwargs.get("max_episode_steps", spec.max_episode_steps)
            if _LIMIT in config.attributes:
                limit = None  # each environment keeps its own
            observation = self._env.single_observation_space
            if self._single:
                observation = _without_stack(cast("gymnasium.spaces.Box", observation))
            self.spec = describe(config, observation, self._env.single_action_space, limit)
            self._check_resets(config)
        except ConfigError:
            self._env.close()
            raise
        self.seeded = self.partial
        self._checked = False
        self._form: Callable[[Seeds], Any] | None = None
        self._obs: Any = None

    @classmethod
    def alone(cls, config: EnvironmentConfig) -> EnvironmentConfig:
        """See `Backend.alone`; it must be registered too."""
        kwargs = {name: each for name, each in config.kwargs.items() if name not in _VECTOR_ONLY}
        return replace(config, backend="gymnasium", kwargs=kwargs)

    def start(self, seeds: Seeds) -> object:
        """See `Backend.start`."""
        self._ended = np.zeros(self._envs, np.bool_)
        if self._form is None:
            self._obs = self._first_start(seeds)
            return self._frames(self._obs)
        self._obs, _ = self._env.reset(seed=self._form(seeds), options=self._copied_options())
        self._drawn = None
        return self._frames(self._obs)

    def _first_start(self, seeds: Seeds) -> object:
        """Find out which form of seeds its reset takes: one for each environment, or one."""
        for form in (list, _as_array):
            with contextlib.suppress(TypeError, gymnasium.error.Error):
                obs, _ = self._env.reset(
                    seed=cast("Any", form(seeds)), options=self._copied_options()
                )
                self._form = cast("Callable[[Seeds], Any]", form)
                return obs
        obs, _ = self._env.reset(seed=seeds[0], options=self._copied_options())
        self._form, self.seeded = _first, False
        return obs

    def _check_resets(self, config: EnvironmentConfig) -> None:
        """Refuse what can't be set for one episode alone, or reaches the first ones only."""
        if config.attributes and not (
            self.partial and callable(getattr(self._env, "set_attr", None))
        ):
            raise ConfigError(
                f"environment.attributes can't be set: the vectorised form of {config.id!r} must "
                "have `set_attr(name, values)`, with a value for each environment as Gymnasium's "
                f"SyncVectorEnv has, and autoreset_mode Disabled. {_SCALAR}"
            )
        if config.reset_options is not None and not self.partial:
            raise ConfigError(
                "environment.reset_options can't be passed on: the vectorised form of "
                f"{config.id!r} resets each environment itself, without options. {_SCALAR}"
            )

    def set_attributes(self, values: Sequence[Values]) -> None:
        """See `Backend.set_attributes`."""
        for name in {name: None for each in values for name in each}:
            cast("Any", self._env).set_attr(name, [each[name] for each in values])

    def step(self, action: Array) -> VectorStep:
        """See `Backend.step`."""
        obs, reward, terminated, truncated, info = self._env.step(action)
        self._obs, self._drawn = obs, None
        if self._late:
            began, self._ended = self._ended, np.asarray(np.logical_or(terminated, truncated))
            if (began & self._ended).any():
                raise ValueError("an episode ended in the step in which it resets (NextStep)")
            frames = self._frames(obs)
            return VectorStep(frames, reward, terminated, truncated, info=info, began=began)
        final, last = None, None
        if not self.partial and (terminated.any() or truncated.any()):
            if "final_obs" not in info:
                raise ValueError(
                    "it says that it resets in the same step (SameStep), but its info lacks "
                    "'final_obs' where an episode ended"
                )
            final, last = self._frames(info["final_obs"]), info.get("final_info", {})
        frames = self._frames(obs)
        return VectorStep(
            frames, reward, terminated, truncated, final=final, info=info, final_info=last
        )

    def begin(self, places: NDArray[np.int64], seeds: Seeds, *, forced: bool) -> object:
        """See `Backend.begin`."""
        del forced
        self._drawn = None
        mask = np.zeros(self._envs, np.bool_)
        mask[places] = True
        options = {**(self._copied_options() or {}), "reset_mask": mask}
        before = None if self._checked else copy.deepcopy(self._obs)
        obs, _ = self._env.reset(seed=self._masked_seeds(places, seeds), options=options)
        if before is not None and not mask.all():
            self._checked = True
            _check_untouched(before, obs, ~mask)
        return self._frames(rows_at(obs, places))

    def _masked_seeds(self, places: NDArray[np.int64], seeds: Seeds) -> Any:
        """A list has a place for each environment, an array for each that is reset."""
        if self._form is list:
            every: list[int | None] = [None] * self._envs
            for place, seed in zip(places.tolist(), seeds, strict=True):
                every[place] = seed
            return every
        return None if self._form is None or self._form is _first else self._form(seeds)

    def _copied_options(self) -> dict[str, Any] | None:
        # a copy, because an environment may take options out of what it is given
        return copy.deepcopy(self._options)

    def _frames(self, obs: object) -> object:
        return without_stack(obs) if self._single else obs

    def drawable(self, place: int) -> Drawable:
        """See `Backend.drawable`."""
        parts: list[object] = [self._env]
        while hasattr(parts[-1], "env"):
            parts.append(cast("Any", parts[-1]).env)
        for env in getattr(parts[-1], "envs", ()):  # of a SyncVectorEnv
            parts += layers(env) if isinstance(env, gymnasium.Env) else ()
        render = partial(self._render, place)
        return Drawable(render, tuple(parts), self._why_not, self._apart)

    def _render(self, place: int) -> object:
        """The picture of one; they are all drawn at once, and only once between two steps."""
        if self._drawn is None:
            self._drawn = self._env.render()
        return None if self._drawn is None else self._drawn[place]

    def close(self) -> None:
        """See `Backend.close`."""
        self._env.close()


def _as_array(seeds: Seeds) -> NDArray[np.int64]:
    return np.array(seeds, np.int64)


def _first(seeds: Seeds) -> int:
    return seeds[0]


def _make(
    spec: EnvSpec, envs: int, config: EnvironmentConfig
) -> tuple[VectorEnv[Any, Any, Any], dict[str, Any]]:
    """Make ``envs`` environments; returns the keyword arguments too."""
    entry = spec.vector_entry_point
    if entry is None:
        raise ConfigError(
            f"environment.id {config.id!r} has no vectorised form (vector_entry_point) for "
            f"environment.backend gymnasium_vector. {_SCALAR}"
        )
    if isinstance(entry, str) and entry in _RESETTABLE:
        spec = copy.copy(spec)
        spec.vector_entry_point = entry = _RESETTABLE[entry]
    creator = entry if callable(entry) else load_env_creator(entry)
    takes = inspect.signature(creator).parameters
    ours = _ours(config, takes)
    refuse_deciding_twice(config, ours)
    kwargs: dict[str, Any] = ours | dict(config.kwargs)
    if "num_threads" in takes:
        kwargs.setdefault("num_threads", 1)
    modes: Sequence[AutoresetMode | None] = [None]
    if "autoreset_mode" in kwargs:
        with contextlib.suppress(ValueError):  # it may have names of its own
            modes = [AutoresetMode(kwargs["autoreset_mode"])]
    elif "autoreset_mode" in takes:
        modes = _MODES
    for mode in modes:
        if mode is not None:
            kwargs["autoreset_mode"] = mode
        try:
            with explaining(config, entry, {**spec.kwargs, **kwargs, "num_envs": envs}):
                made = gymnasium.make_vec(
                    spec, envs, vectorization_mode="vector_entry_point", **kwargs
                )
            return made, kwargs
        except ValueError:
            if mode is None or mode is modes[-1]:
                raise
    raise AssertionError("there is always a mode to try")


def _mode(env: VectorEnv[Any, Any, Any], config: EnvironmentConfig) -> AutoresetMode:
    mode = env.metadata.get("autoreset_mode")
    with contextlib.suppress(ValueError):
        return AutoresetMode(mode)
    raise ConfigError(
        f"the vectorised form of {config.id!r} doesn't say how it resets: metadata"
        f"['autoreset_mode'] must be one of gymnasium.vector.AutoresetMode; got {mode!r}. {_SCALAR}"
    )


def _ours(config: EnvironmentConfig, takes: object) -> dict[str, Any]:
    """What follows from `environment.atari` and stacked frames, in the words of ALE's games."""
    names = cast("dict[str, object]", takes)
    found: dict[str, Any] = {}
    if single_frames(config) and "stack_num" in names:
        found["stack_num"] = 1
    if config.atari is None:
        return found
    if "episodic_life" not in names:
        raise ConfigError(
            f"environment.atari needs an ALE game; the vectorised form of {config.id!r} is none. "
            "Remove environment.atari."
        )
    atari = config.atari
    return found | {
        "frameskip": atari.frame_skip,
        "maxpool": atari.frame_skip > 1,
        "noop_max": atari.noop_max,
        "img_height": atari.screen_size,
        "img_width": atari.screen_size,
        "grayscale": atari.grayscale,
        "episodic_life": atari.terminal_on_life_loss,
        "use_fire_reset": atari.fire_on_reset,
        "reward_clipping": atari.clip_rewards,
        "repeat_action_probability": atari.repeat_action_probability,
    }


def _without_stack(space: gymnasium.spaces.Box) -> gymnasium.spaces.Box:
    return gymnasium.spaces.Box(space.low[0], space.high[0], dtype=cast("Any", space.dtype))


def _check_untouched(before: Any, after: Any, kept: NDArray[np.bool_]) -> None:
    """Whether the environments ``kept`` were left alone by a reset of the others.

    Raises:
        ValueError: They were not.
    """
    if isinstance(before, dict):
        for key in before:
            _check_untouched(before[key], after[key], kept)
    elif isinstance(before, tuple):
        for one, other in zip(before, after, strict=True):
            _check_untouched(one, other, kept)
    elif not np.array_equal(before[kept], after[kept], equal_nan=before.dtype.kind == "f"):
        raise ValueError(
            "its reset changed environments that options['reset_mask'] leaves out, so single "
            "environments can't be reset. Use environment.backend: gymnasium"
        )
