"""EnvPool's environments, written in C++."""

from __future__ import annotations

import difflib
import importlib
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

import gymnasium
import numpy as np
from msgspec.structs import asdict
from numpy.typing import NDArray

from fast_core.algorithm import Array
from fast_core.config import EnvironmentConfig
from fast_core.envs.backends.backend import (
    Backend,
    VectorStep,
    refuse_deciding_twice,
    single_frames,
    without_stack,
)
from fast_core.envs.batched import rows_at
from fast_core.envs.description import describe
from fast_core.envs.drawing.drawable import Drawable
from fast_core.envs.drawing.envpool_drawing import try_drawing
from fast_core.envs.drawing.made_to_draw import MODE
from fast_core.envs.masks import valid_action
from fast_core.errors import ConfigError
from fast_core.system.extras import to_install
from fast_core.system.text import error_text

Flags = NDArray[np.bool_]
_OURS = ("num_envs", "batch_size", "seed", "env_seed", "max_num_players", "gym_reset_return_info")
_ATARI = {
    "frame_skip": "frame_skip",
    "noop_max": "noop_max",
    "grayscale": "gray_scale",
    "terminal_on_life_loss": "episodic_life",
    "fire_on_reset": "use_fire_reset",
    "clip_rewards": "reward_clip",
    "repeat_action_probability": "repeat_action_probability",
}


class EnvPool(Backend):
    """`Backend` over `envpool.make_gymnasium`, in its synchronous mode.

    Each environment has one random stream, seeded when it is made: what an episode is depends on
    those before it, so none can be repeated alone. EnvPool resets in the step after an episode's
    end; that step is taken for the ended environments alone. So a game that goes on after a lost
    life does, and one that reached its time limit, which EnvPool counts per game, begins anew.

    It starts a thread, the one that steps, unless ``environment.kwargs.num_threads`` says more.
    """

    takes = frozenset({"atari"})

    def __init__(self, config: EnvironmentConfig, envs: int, *, draws: bool = False) -> None:
        """Read what the task is like; environments are made by `start`.

        They are made so that they draw themselves if ``draws`` says so and they can.

        Raises:
            ConfigError: EnvPool is not installed, has no such task, or takes no such arguments.
        """
        self._envpool = _import()
        self._id, self._envs = config.id, envs
        self._kwargs: dict[str, Any] = {}
        self._kwargs = _kwargs(config, self._spec(config).config)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Gymnasium's, of the precision of bounds
            spec = self._spec(config)
            observation, choice = spec.gymnasium_observation_space, spec.gymnasium_action_space
        self._single = single_frames(config) and "stack_num" in self._kwargs
        self._colour = self._single and not self._kwargs.get("gray_scale", True)
        if self._single:
            observation = _frame_space(observation, colour=self._colour)
        self._ends_at_lost_life = bool(self._kwargs.get("episodic_life"))
        self._lives = np.zeros(envs, np.int64)  # of each game, where there are any
        limit = spec.config.max_episode_steps
        self.spec = describe(config, observation, choice, limit if limit > 0 else None)
        action = self.spec.action
        self._ignored = np.broadcast_to(valid_action(action), (envs, *action.shape))
        self._pool: Any = None
        self._everywhere = np.arange(envs)
        self._draws, self._why_not = draws, ""

    def _spec(self, config: EnvironmentConfig) -> Any:
        try:
            return self._envpool.make_spec(self._id, **self._kwargs)
        except KeyError as error:
            near = difflib.get_close_matches(self._id, self._envpool.list_all_envs(), n=3)
            hint = f" Nearest: {', '.join(map(repr, near))}." if near else ""
            raise ConfigError(
                f"environment.id must name a task of EnvPool; got {self._id!r}.{hint}"
            ) from error
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"EnvPool's task {self._id!r} does not take environment.kwargs "
                f"{config.kwargs!r}: {error}"
            ) from error

    def start(self, seeds: Sequence[int]) -> object:
        """See `Backend.start`; makes the environments, each seeded with its first seed."""
        self.close()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._pool = self._make(list(seeds))
            obs, info = self._pool.reset()
        return self._ordered(obs, info, self._everywhere)

    def _make(self, seeds: list[int]) -> Any:
        make = partial(self._envpool.make_gymnasium, self._id, num_envs=self._envs, env_seed=seeds)
        if self._draws and not self._why_not:
            try:
                return make(**self._made_to_draw())
            except Exception as error:  # an older one may not know how to draw
                self._why_not = f"it can't be made with render_mode {MODE!r}: {error_text(error)}"
        return make(**self._kwargs)

    def _made_to_draw(self) -> dict[str, Any]:
        return {"render_mode": MODE} | self._kwargs

    def drawable(self, place: int) -> Drawable:
        """See `Backend.drawable`."""
        return Drawable(partial(self._render, place), why_not=self._why_not)

    def _render(self, place: int) -> object:
        try_drawing(self._id, self._made_to_draw())
        return self._pool.render([place])[0]

    def step(self, action: Array) -> VectorStep:
        """See `Backend.step`."""
        obs, reward, terminated, truncated, info = self._pool.step(action)
        goes_on = self._games_ends(terminated, truncated, info)
        if (info["env_id"] == self._everywhere).all():
            return VectorStep(self._frames(obs), reward, terminated, truncated, goes_on, info=info)
        order = self._order(info, self._everywhere)
        return VectorStep(
            self._frames(rows_at(obs, order)),
            reward[order],
            terminated[order],
            truncated[order],
            None if goes_on is None else goes_on[order],
            info=_in_order(info, order),
        )

    def _games_ends(
        self, terminated: Flags, truncated: Flags, info: dict[str, Any]
    ) -> Flags | None:
        """Complete ``terminated`` where the task is a game; returns `VectorStep.goes_on`.

        At the time limit, which the episode's own count of steps proves, EnvPool says truncated
        alone. A game tells itself whether it is over, or has lost a life; nothing else does.
        """
        if not {"lives", "terminated"} <= info.keys():
            return None
        over: Flags = info["terminated"] != 0  # unlike EnvPool's flag, of the game
        lost: Flags = info["lives"] < self._lives[info["env_id"]]
        terminated |= truncated & (over | (lost & self._ends_at_lost_life))
        self._note_lives(info)
        return terminated & ~truncated & ~over

    def _note_lives(self, info: dict[str, Any]) -> None:
        if "lives" in info:
            self._lives[info["env_id"]] = info["lives"]

    def begin(self, places: NDArray[np.int64], seeds: Sequence[int], *, forced: bool) -> object:
        """See `Backend.begin`."""
        del seeds
        ids = places.astype(np.int32)
        if forced:
            obs, info = self._pool.reset(ids)
        else:
            obs, _, terminated, truncated, info = self._pool.step(self._ignored[places], ids)
            if (terminated | truncated).any():
                raise ValueError("an episode ended in the step in which EnvPool resets")
        return self._ordered(obs, info, places)

    def _ordered(self, obs: object, info: dict[str, Any], places: NDArray[np.integer]) -> object:
        self._note_lives(info)
        return self._frames(rows_at(obs, self._order(info, places)))

    def _order(self, info: dict[str, Any], places: NDArray[np.integer]) -> NDArray[np.int64]:
        """Where each place is among the results, which come in any order.

        Raises:
            ValueError: They are of other environments: of an earlier call, say.
        """
        ids = info["env_id"]
        order = np.argsort(ids, kind="stable")
        if not np.array_equal(ids[order], places):
            raise ValueError(
                f"EnvPool gave results of the environments {ids.tolist()} where those of "
                f"{places.tolist()} were asked for"
            )
        return order

    def _frames(self, obs: object) -> object:
        return without_stack(obs, colour_first=self._colour) if self._single else obs

    def close(self) -> None:
        """See `Backend.close`; EnvPool ends its threads with the last reference."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()


def _in_order(info: Mapping[str, Any], order: NDArray[np.int64]) -> dict[str, object]:
    """The info of all environments in their order; what is not one value for each is left out."""
    given = {name: part for name, part in info.items() if isinstance(part, Mapping)}
    rows = {name: part for name, part in info.items() if np.shape(part)[:1] == order.shape}
    return {
        **{name: _in_order(part, order) for name, part in given.items()},
        **{name: part[order] for name, part in rows.items() if name not in given},
    }


def _import() -> Any:
    try:
        return importlib.import_module("envpool")
    except ImportError as error:
        raise ConfigError(
            "environment.backend envpool needs EnvPool, which can't be imported "
            f"({error}). Run {to_install('envpool')}."
        ) from error


def _kwargs(config: EnvironmentConfig, defaults: object) -> dict[str, Any]:
    """Arguments of `envpool.make_gymnasium`; ``defaults`` are the task's.

    Raises:
        ConfigError: ``environment.kwargs`` sets what FastLoop decides, ``environment.atari`` is
            set for what is no Atari game, or ``noop_max`` is one that crashes EnvPool.
    """
    for name in _OURS:
        if name in config.kwargs:
            raise ConfigError(
                f"environment.kwargs.{name} is decided by FastLoop, from the rollout's shards and "
                "environments and the run's seed. Remove it."
            )
    kwargs: dict[str, Any] = {}
    if single_frames(config) and hasattr(defaults, "stack_num"):
        kwargs["stack_num"] = 1
    if config.atari is not None:
        if not hasattr(defaults, "episodic_life"):
            raise ConfigError(
                f"environment.atari needs an Atari game; EnvPool's {config.id!r} is none. Remove "
                "environment.atari."
            )
        given = asdict(config.atari)
        kwargs |= {theirs: given[ours] for ours, theirs in _ATARI.items()}
        kwargs |= {"img_height": config.atari.screen_size, "img_width": config.atari.screen_size}
    refuse_deciding_twice(config, kwargs)
    kwargs = {"num_threads": 1} | kwargs | dict(config.kwargs)
    if kwargs.get("noop_max", 1) < 1:
        raise ConfigError(
            f"noop_max must be at least 1 with environment.backend envpool, which crashes at "
            f"{kwargs['noop_max']}. Use 1, or environment.backend: gymnasium."
        )
    return kwargs


def _frame_space(space: gymnasium.Space[Any], *, colour: bool) -> gymnasium.Space[Any]:
    """The space of one frame, of a stack of one."""
    box = cast("gymnasium.spaces.Box", space)
    shape = (*box.shape[1:], box.shape[0]) if colour else box.shape[1:]
    low, high = float(box.low.min()), float(box.high.max())
    return gymnasium.spaces.Box(low, high, shape, cast("Any", box.dtype))
