"""One Gymnasium environment of a run: made, reset, stepped and, if it fails, blamed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from gymnasium.wrappers import OrderEnforcing, TimeLimit

from fast_core.config import EnvironmentConfig, Values
from fast_core.envs.atari import AtariGame
from fast_core.envs.description import info_key, with_info_mask
from fast_core.envs.drawing.drawable import Drawable
from fast_core.envs.drawing.made_to_draw import make_to_draw
from fast_core.envs.drawing.mujoco_pictures import MujocoPictures, draws_with_gymnasium
from fast_core.envs.drawing.poses import posed
from fast_core.envs.making import (
    Env,
    Maker,
    check_attributes,
    describe_env,
    layers,
    make_env,
)
from fast_core.envs.place import Place
from fast_core.envs.records import Row, assign, mismatch
from fast_core.envs.rows import Observations, as_ends, as_reward
from fast_core.envs.whereabouts import OLD_RESET, Whereabouts
from fast_core.errors import ConfigError, EnvironmentFailed
from fast_core.system.seeding import Role, draw_seed, seed_global_generators

StepResult = tuple[object, object, object, object, dict[str, Any]]
Step = Callable[[object], StepResult]
Key = tuple[Role, int, int, int]  # of one environment: role, shard, index, incarnation


class Instance:
    """An environment that knows its place in the run.

    Attributes:
        spec: Its spaces and time limit.
        step: Call to step it; does not apply ``limit``.
        where: Its place in the run, for errors.
        limit: Steps after which its caller must truncate an episode, or None.
        cast: What of its observations was cast, see `assign`.
        info: What came with the last `checked_step`.
        attributes: What is set before every reset.
    """

    def __init__(
        self,
        config: EnvironmentConfig,
        *,
        seed: int,
        role: Role,
        shard: int,
        index: int,
        incarnation: int,
        number: int = 0,
        maker: Maker = make_env,
        draws: bool = False,
    ) -> None:
        """Make environment ``index`` of ``shard``, the one that has ``number`` (`Place`).

        Everything random in its construction is seeded from (``seed``, ``role``, ``shard``,
        ``index``, ``incarnation``) first, the sampling of its spaces too. ``maker`` makes it, so
        that it ``draws`` itself if it can.

        Raises:
            ConfigError: No such environment, or its spaces are not supported.
            EnvironmentFailed: Its constructor raised.
        """
        self._options = config.reset_options
        self.where = Whereabouts(
            environment=str(index), shard=shard, id=config.id, incarnation=incarnation
        )
        key = (role, shard, index, incarnation)
        try:
            make = partial(make_seeded, seed=seed, key=key, number=number, maker=maker)
            self._env, self._why_not = make_to_draw(config, make) if draws else (make(config), "")
        except ConfigError:
            raise
        except BaseException as error:  # a constructor may raise anything
            raise self.failure("while it was made", error) from error
        self._closed, self.cast = False, ""
        self.attributes: Values = config.attributes
        check_attributes(self._env, config)
        innermost = list(layers(self._env))[-1]
        self._pictures = MujocoPictures(self._env) if draws_with_gymnasium(self._env) else None
        self._pose = posed(self._env) if draws else None
        self._game = innermost if isinstance(innermost, AtariGame) else None
        self.info: object = None
        self.spec = describe_env(self._env, config)
        seed_spaces(self._env, seed, key)
        self._info_key, self._apart = info_key(config), "render_mode" not in config.kwargs
        self.step, self.limit = _quickest_step(self._env, config)

    def observations(self, envs: int) -> Observations:
        """Rows for what ``envs`` environments like this one return."""
        return Observations(envs, self.spec)

    @property
    def episode_start(self) -> bytes:
        """What `reset` needs beside the seed to begin the open episode again, often nothing."""
        return b"" if self._game is None else self._game.episode_start

    def go_on(self, row: Row, *, episode: int) -> bool:
        """After a lost life (`AtariGame`), begin the next one in the same game, as training does.

        Returns:
            Whether the game goes on; if not, a `reset` must begin a new one.

        Raises:
            EnvironmentFailed: As `reset`.
        """
        if self._game is None or not self._game.life_lost:
            return False
        self.reset(row, episode=episode, seed=None)
        return self._game.steps > 0

    def reset(
        self, row: Row, *, episode: int, seed: int | None, start: bytes | None = None
    ) -> None:
        """Begin ``episode`` with ``seed`` and write its first observation to ``row``.

        Where a game goes on over several episodes (`AtariGame`), the episode begins where
        ``start``, an `episode_start`, says; empty means with a new game. Without a ``seed`` its
        random stream goes on.

        Each episode is seeded, so that one can be repeated alone. In CartPole that takes 12 us
        where an unseeded reset takes 3: 0.4 us per step of random play and nothing to speak of
        once episodes are long. Seeding every n-th reset would save that, but then resuming, and
        reproducing a failure, would have to replay the episodes before it.

        Raises:
            EnvironmentFailed: It raised, or the observation is not what its space declares.
        """
        try:
            # a copy, because an environment may take options out of what it is given
            options = copy.deepcopy(self._options) if self._options is not None else None
            if self._game is not None and start is not None:
                self._game.begin_at(start)
            for name, value in self.attributes.items():
                self._env.set_wrapper_attr(name, copy.deepcopy(value))
            begun = self._env.reset(seed=seed, options=options)
            obs, info = _pair(begun)
            if self._info_key is not None:
                obs = with_info_mask(obs, info, self._info_key)
        except BaseException as error:  # an environment may raise anything
            raise self.failure(0, error, episode, seed) from error
        try:
            self.cast = assign(row, obs) or self.cast
        except (ValueError, TypeError) as error:
            cause = mismatch(obs, self.spec.row, error)
            raise self.failure(0, cause, episode, seed) from error

    def checked_step(
        self, row: Row, action: object, *, number: int, episode: int, seed: int
    ) -> tuple[float, bool, bool]:
        """Take step ``number`` of ``episode`` and write the observation to ``row``.

        The convenient way where speed does not matter; it applies the time limit too.

        Returns:
            Reward, terminated, truncated.

        Raises:
            EnvironmentFailed: It raised or gave what its spaces do not declare.
        """
        try:
            obs, given, terminated, truncated, self.info = self.step(action)
            reward = as_reward(given)
            ends = as_ends(terminated, truncated)
        except BaseException as error:  # an environment may raise anything
            raise self.failure(number, error, episode, seed, action) from error
        try:
            self.cast = assign(row, obs) or self.cast
        except (ValueError, TypeError) as error:
            cause = mismatch(obs, self.spec.row, error)
            raise self.failure(number, cause, episode, seed, action) from error
        return reward, ends[0], ends[1] or (self.limit is not None and number >= self.limit)

    def failure(
        self,
        when: int | str,
        cause: str | BaseException,
        episode: int | None = None,
        seed: int | None = None,
        action: object = None,
    ) -> EnvironmentFailed:
        """See `Whereabouts.failure`."""
        return self.where.failure(when, cause, episode, seed, action)

    def render(self) -> object:
        """What it draws of its present state, in the render mode it was made with.

        Raises:
            EnvironmentFailed: It raised.
        """
        try:
            return self._env.render()
        except BaseException as error:  # an environment may raise anything
            raise self.failure("while it was drawn", error) from error

    @property
    def drawable(self) -> Drawable:
        """What draws it, if it was made to draw."""
        parts = tuple(layers(self._env))
        drawable = Drawable(
            self._env.render, parts, self._why_not, self._apart, self.close, self._leave
        )
        if not self._apart or self._why_not:
            return drawable
        pictures = self._pictures
        if pictures is not None:
            drawable = drawable._replace(render=pictures.render, fit=pictures.fit)
        # What is set before each reset may show in its pictures.
        return drawable if self.attributes else drawable._replace(pose=self._pose)

    @property
    def render_fps(self) -> float | None:
        """Frames per second at which its drawings move at their natural speed, if it says."""
        fps = self._env.metadata.get("render_fps")
        return float(fps) if isinstance(fps, int | float) else None

    def _leave(self) -> None:
        self._closed = True

    def close(self) -> None:
        """Close it, once.

        Raises:
            EnvironmentFailed: Its close raised.
        """
        if self._closed:
            return
        self._closed = True
        try:
            self._env.close()
        except BaseException as error:  # an environment may raise anything
            raise self.failure("in close", error) from error


def make_seeded(
    config: EnvironmentConfig,
    seed: int,
    key: Key,
    number: int = 0,
    maker: Maker = make_env,
) -> Env:
    """Make the environment that has ``key``, the global generators seeded for its constructor."""
    _, shard, index, _ = key
    seed_global_generators(seed, *key)
    place = Place(number, shard, index, draw_seed(seed, Role.ENVIRONMENT_SPACE, *key, 2))
    return maker(config, place)


def seed_spaces(env: Env, seed: int, key: Key) -> None:
    """Seed the sampling of its spaces."""
    env.action_space.seed(draw_seed(seed, Role.ENVIRONMENT_SPACE, *key, 0))
    env.observation_space.seed(draw_seed(seed, Role.ENVIRONMENT_SPACE, *key, 1))


def make_instances(
    config: EnvironmentConfig,
    *,
    seed: int,
    role: Role,
    shard: int,
    indices: range,
    incarnation: int,
    number: int = 0,
    maker: Maker = make_env,
    draws: Collection[int] = (),
) -> list[Instance]:
    """Make the environments ``indices`` of ``shard``, of which the first has ``number``.

    Those in ``draws`` are made to draw themselves. If one can't be made, those before it are
    closed.
    """
    made: list[Instance] = []
    try:
        for index in indices:
            made.append(
                Instance(
                    config,
                    seed=seed,
                    role=role,
                    shard=shard,
                    index=index,
                    incarnation=incarnation,
                    number=number + len(made),
                    maker=maker,
                    draws=index in draws,
                )
            )
    except BaseException:
        close_all(made)
        raise
    return made


def close_all(instances: list[Instance]) -> None:
    """Close every instance, and then raise the first error there was."""
    first: EnvironmentFailed | None = None
    for instance in instances:
        try:
            instance.close()
        except EnvironmentFailed as error:
            first = first or error
    if first is not None:
        raise first


def _quickest_step(env: Env, config: EnvironmentConfig) -> tuple[Step, int | None]:
    """What steps ``env`` once for the run, and the time limit that its caller must apply.

    Where actions are repeated, the environment's own `TimeLimit` counts each repetition.
    """
    step, limit = _past_wrappers(env, config.attributes)
    if config.frame_skip > 1:
        step, limit = repeating(env.step, config.frame_skip), None
    key = info_key(config)
    return (step if key is None else _with_mask(step, key)), limit


def _past_wrappers(env: Env, attributes: Collection[str]) -> tuple[Step, int | None]:
    """The quickest equal of ``env.step``, and the time limit that its caller must apply.

    `gymnasium.make` puts a `TimeLimit` and an `OrderEnforcing` outermost. Their ``step`` takes
    0.4 us to count to the limit and to check that there was a reset, both of which a batch does
    for all its environments at once. Only ``step`` goes past them, only past these exact types,
    and not where they have one of the ``attributes`` that are set.
    """
    limit, inner = None, env
    passed: list[Env] = []
    if type(inner) is TimeLimit:
        limit = inner._max_episode_steps  # not what its spec says, which may be older
        passed.append(inner)
        inner = inner.env
    if type(inner) is OrderEnforcing:
        passed.append(inner)
        inner = inner.env
    if any(hasattr(wrapper, name) for wrapper in passed for name in attributes):
        return env.step, None
    return inner.step, limit


def repeating(step: Step, times: int) -> Step:
    """Take an action ``times`` times or until the episode ends, and add up the rewards."""

    def repeat(action: object) -> StepResult:
        total = 0.0
        for _ in range(times):
            # a copy, because an environment may do what it likes with what it is given
            obs, reward, terminated, truncated, info = step(copy.copy(action))
            total += as_reward(reward)
            if True in as_ends(terminated, truncated):
                break
        return obs, total, terminated, truncated, info

    return repeat


def _with_mask(step: Step, key: str) -> Step:
    """Add the action mask in the info to the observation."""

    def masked(action: object) -> StepResult:
        obs, reward, terminated, truncated, info = step(action)
        ended = True in as_ends(terminated, truncated)
        return with_info_mask(obs, info, key, ended=ended), reward, terminated, truncated, info

    return masked


def _pair(begun: object) -> tuple[object, dict[str, Any]]:
    """Observation and info, where ``reset`` returned both."""
    if not (isinstance(begun, tuple | list) and len(begun) == 2 and isinstance(begun[1], dict)):
        raise TypeError(f"{OLD_RESET}; got a {type(begun).__name__}")
    return begun[0], begun[1]
