"""A batch of environments that a library steps with one call."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Unpack

import msgspec
import numpy as np

from fast_core.algorithm import Array
from fast_core.config import EnvironmentConfig
from fast_core.envs.backends import VectorStep, make_backend
from fast_core.envs.batched import BatchWriter
from fast_core.envs.drawing.drawable import Drawable
from fast_core.envs.masks import valid_action
from fast_core.envs.place import Place
from fast_core.envs.records import assign, leaf_of
from fast_core.envs.rows import store_ends, store_rewards
from fast_core.envs.stepping.batch import Batched, EnvBatch, Flags
from fast_core.envs.stepping.batch_state import OpenEpisode
from fast_core.envs.stepping.repeating import Repetition, not_repeated
from fast_core.envs.whereabouts import BatchWhereabouts
from fast_core.errors import ConfigError
from fast_core.system.progress import ALL_ENVS, ProgressWord
from fast_core.system.seeding import (
    Role,
    children_seeded,
    draw_seed,
    seed_global_generators,
)


class VectorBatch(EnvBatch):
    """`EnvBatch` over a `Backend`.

    Where a backend can't seed single episodes, their numbers are still counted, and a restored
    batch begins with episodes that were not played yet.

    Attributes:
        goes_on: `VectorStep.goes_on` of the last step.
    """

    def __init__(
        self,
        config: EnvironmentConfig,
        *,
        max_episode_steps: int | None = None,
        **which: Unpack[Batched],
    ) -> None:
        """Make them; ``max_episode_steps`` is of those without a time limit.

        Raises:
            ConfigError: The library is not installed, or can't step these environments.
            EnvironmentFailed: A constructor raised.
        """
        seed, shard, envs = which["seed"], which["shard"], which["envs"]
        first_env, incarnation = which.get("first_env", 0), which.get("incarnation", 1)
        indices = range(first_env, first_env + envs)
        where = BatchWhereabouts(indices, shard=shard, id=config.id, incarnation=incarnation)
        self._blamed = where.blamed
        role = which.get("role", Role.ENVIRONMENT_EPISODE)
        key = role, shard, first_env, incarnation
        seed_global_generators(seed, *key)
        place_seed = draw_seed(seed, Role.ENVIRONMENT_SPACE, *key, 2)
        # the first one's: they are made at once
        place = Place(which.get("number", 0), shard, first_env, place_seed)
        place.tell()
        with self._blamed("while they were made"), children_seeded(seed, *key):
            drawn = any(index in which.get("draws", ()) for index in indices)
            self._backend = backend = make_backend(place.fill(config), envs, draws=drawn)
        self._closed = False
        which["keep_actions"] = which.get("keep_actions", True) and backend.seeded
        spec = msgspec.structs.replace(backend.spec, repeatable=backend.seeded)
        limit = spec.max_episode_steps or max_episode_steps
        super().__init__(config, spec, where.places, limit, which)
        self._refuse_cutting(config)
        self._tries = self._tries if backend.partial else 1
        self._open.words[ProgressWord.ENV] = 0 if envs == 1 else ALL_ENVS
        self.goes_on: Flags | None = None
        self._writer = BatchWriter(self.spec.tree, self.spec.action_mask)
        self._first: Array | None = None  # observations of what the backend began in the last step
        self._infos: Mapping[str, object] = {}  # of the last step

    def _refuse_cutting(self, config: EnvironmentConfig) -> None:
        if self._no_reward is None or self._backend.partial:
            return
        self._backend.close()
        raise ConfigError(
            f"environment.no_reward_timeout_steps {config.no_reward_timeout_steps} can't be kept: "
            f"the vectorised form of {config.id!r} resets each environment at its own end alone, "
            "so no episode can be cut. Leave it out, or use environment.backend: gymnasium."
        )

    @property
    def position(self) -> int:
        """See `EnvBatch.position`."""
        return self._first_env

    @property
    def cast(self) -> str:
        """What of the observations was cast, see `assign`."""
        return self._writer.cast

    @property
    def seeded(self) -> bool:
        """Whether every episode is seeded; known after the first reset."""
        return self._backend.seeded

    def _advance(self, action: Array, terminated: Flags, truncated: Flags) -> list[int]:
        with self._blamed("in a step"):
            result = self._step_backend(action, terminated, truncated)
            if self.extra:
                self._read_columns(result, terminated | truncated)
            ended: list[int] = []
            if np.count_nonzero(terminated) or np.count_nonzero(truncated):
                ended = np.flatnonzero(terminated | truncated).tolist()
            self._first = None
            if result.final is not None:
                self._first = self._obs.array.copy()
                for place in ended:
                    assign(self._obs.unchecked[place], self._writer.pick(result.final, place))
        self._check_choices(action)
        if self._late:
            self._begin_late()
        return ended

    def _step_backend(self, action: Array, terminated: Flags, truncated: Flags) -> VectorStep:
        """Let the backend step, and take what it gives where it does not write it itself."""
        backend, obs, reward = self._backend, self._obs.array, self._reward
        if backend.in_place:
            info = backend.step_into(
                action.copy(), obs=obs, reward=reward, terminated=terminated, truncated=truncated
            )
            self._infos = info
            return VectorStep(obs, reward, terminated, truncated, info=info)
        result = backend.step(action.copy())
        if not isinstance(result, VectorStep):
            raise TypeError(
                "step(action) must return a fast_core.envs.backends.VectorStep; got a "
                f"{type(result).__name__}"
            )
        self._writer.write(result.obs, obs)
        self._store(result, terminated, truncated, action)
        return result

    def _store(
        self, result: VectorStep, terminated: Flags, truncated: Flags, action: Array
    ) -> None:
        shape = (self._envs,)
        for name, values in zip(result._fields[1:4], result[1:4], strict=True):
            if np.shape(values) != shape:
                raise ValueError(f"{name} must have shape {shape}; got {np.shape(values)}")
        self._infos = result.info if result.final_info is None else result.final_info
        wrong = store_rewards(result.reward, self._reward)
        if wrong is not None:
            cause = f"the reward must be one number; got {result.reward[wrong]!r}"
            raise self._failure(wrong, cause, action)
        for name, ends, out in (
            ("terminated", result.terminated, terminated),
            ("truncated", result.truncated, truncated),
        ):
            wrong = store_ends(ends, out)
            if wrong is not None:
                cause = f"{name} must be True or False; got {ends[wrong]!r}"
                raise self._failure(wrong, cause, action)
        self.goes_on = result.goes_on
        if result.began is not None:
            self._late = np.flatnonzero(result.began).tolist()

    def _read_columns(self, result: VectorStep, ended: Flags) -> None:
        stepped = np.ones(self._envs, np.bool_)
        for place in self._late:
            stepped[place] = False
            self._columns.clear(place)
        if result.final_info is not None:
            self._columns.read_rows(result.final_info, np.flatnonzero(ended))
            stepped &= ~ended
        self._columns.read_rows(result.info, np.flatnonzero(stepped))

    def _begin_late(self) -> None:
        """Let the episodes that the library began in place of a step begin after it."""
        self._reward[self._late] = 0.0
        for place in self._late:
            self._open.begin(place, self._open.episode[place], self._open.count)
        self._settle(self._late)

    def _info_of(self, place: int) -> dict[str, float]:
        return self._info.read(self._infos, place)

    def _check_choices(self, action: Array | None) -> None:
        outside = self._obs.outside()
        if outside is not None:
            raise self._failure(*outside, action)

    def _start(self, places: list[int]) -> None:
        self._start_all([self._count_on(place) for place in places])

    def _start_all(self, seeds: Sequence[int]) -> None:
        """Begin anew in all environments."""
        with self._blamed("in reset"):
            self._set_attributes()
            self._writer.write(self._backend.start(seeds), self._obs.array)
        self._check_choices(None)

    def _reset(self, places: list[int]) -> None:
        seeds = {place: self._count_on(place) for place in places}
        if self._backend.partial:
            for forced in (False, True):
                chosen = {p: seed for p, seed in seeds.items() if (p in self._forced) is forced}
                self._reset_some(chosen, forced=forced)
        else:
            self._take_first(places)
        self._check_choices(None)

    def _reset_some(self, seeds: Mapping[int, int], *, forced: bool) -> None:
        """Reset the environments that have a seed here, see `Backend.begin`."""
        if seeds:
            places = np.array(list(seeds))
            with self._blamed("in reset"):
                self._set_attributes()
                obs = self._backend.begin(places, list(seeds.values()), forced=forced)
                self._writer.write(obs, self._obs.array, places)

    def _set_attributes(self) -> None:
        """Give each environment attributes of its own, those that its episode began with."""
        if self._attributes:
            self._backend.set_attributes([copy.deepcopy(each) for each in self._began_with])

    def _take_first(self, places: list[int]) -> None:
        """Let the episodes begin that the backend began by itself, or will in the next step."""
        if self._forced:
            cause = (
                "its episode must be cut (a value is NaN or infinite, or a time limit was passed), "
                "but its library resets it at its own end alone. Use environment.backend: gymnasium"
            )
            raise self._failure(min(self._forced), cause, None)
        if self._first is not None:
            self._obs.array[places] = self._first[places]
        elif self._obs.masks is not None:  # the last one stays until the library begins the next
            for place in places:
                self._obs.masks.allow_all(place)

    def drawable(self, place: int) -> Drawable:
        """See `EnvBatch.drawable`."""
        drawable = self._backend.drawable(place)
        return drawable._replace(close=self.close, leave=self._leave)

    def _leave(self) -> None:
        self._closed = True

    def _repetitions(
        self, saved: Sequence[OpenEpisode], actions: Array, starts: list[int]
    ) -> list[tuple[Repetition, Sequence[int]]]:
        """They are stepped together."""
        if any(episode.actions is None for episode in saved):
            return []
        attempt = partial(self._repeat, saved, actions, starts)
        return [(Repetition(len(actions), attempt), range(self._envs))]

    def _repeat(
        self, saved: Sequence[OpenEpisode], actions: Array, starts: Sequence[int]
    ) -> Iterator[None]:
        """Bring all environments back into their open episodes ``saved``, a step each time.

        They are stepped together, so those with fewer steps to repeat begin later; what they do
        before is of no account, and neither is what one does that did something else than before.
        """
        self._lost.clear()
        self._returns.fill(0.0)
        seeds = []
        for place, episode in enumerate(saved):
            seed = self._open.begin(place, episode.episode, starts[place])
            if seed != episode.seed:
                self._lose(place, f"this run resets that episode with {seed}")
            seeds.append(seed)
        self._began_with = [episode.attributes for episode in saved]
        self._start_all(seeds)
        for t, action in enumerate(actions):
            self._begin_at(t, starts, seeds)
            self._allow_waiting(t, action, starts)
            self._repeat_step(t, action, starts, seeds)
            yield
        self._begin_at(len(actions), starts, seeds)
        for place, episode in enumerate(saved):
            self._check_same(place, episode)
            self._resume(place, episode)

    def _lose(self, place: int, what: str) -> None:
        """Give up an episode; the first cause counts."""
        error = not_repeated(self._where[place], self._saved[place], what)
        self._lost.setdefault(place, str(error))

    def _begin_at(self, t: int, starts: Sequence[int], seeds: Sequence[int]) -> None:
        begun = {p: seeds[p] for p, start in enumerate(starts) if start == t > 0}
        self._reset_some(begun, forced=True)
        self._returns[list(begun)] = 0.0

    def _allow_waiting(self, t: int, action: Array, starts: Sequence[int]) -> None:
        """Choose allowed actions for environments whose turn to repeat has not come."""
        mask = self.spec.action_mask
        if mask is not None:
            allowed = leaf_of(self._obs.array, mask)
            for place in (place for place, start in enumerate(starts) if t < start):
                action[place] = valid_action(self.spec.action, allowed[place])

    def _repeat_step(
        self,
        t: int,
        action: Array,
        starts: Sequence[int],
        seeds: Sequence[int],
    ) -> None:
        terminated, truncated = np.zeros((2, self._envs), np.bool_)
        self._obs, self._old_obs = self._old_obs, self._obs
        self._advance(action, terminated, truncated)
        self._returns += self._reward
        ended = np.flatnonzero(terminated | truncated).tolist()
        for place in ended:
            if starts[place] <= t:
                self._lose(place, f"the episode ended at step {t + 1 - starts[place]}")
        self._reset_some({place: seeds[place] for place in ended}, forced=False)

    def _check_same(self, place: int, saved: OpenEpisode) -> None:
        total = float(self._returns[place])
        if total != saved.total:
            self._lose(place, f"the rewards add up to {total!r}, not {saved.total!r}")
        if self._obs.array[place].tobytes() != saved.obs:
            self._lose(place, "the observation differs from the saved one")

    def close(self) -> None:
        """See `EnvBatch.close`."""
        if not self._closed:
            self._closed = True
            with self._blamed("in close"):
                self._backend.close()
