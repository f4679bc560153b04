"""A batch of environments that a library steps with one call."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm import Array
from fast_core.config import EnvironmentConfig, Values
from fast_core.envs.backends.envpool import EnvPoolSource
from fast_core.envs.backends.gymnasium_vector import GymnasiumVectorSource
from fast_core.envs.backends.source import VectorSource, VectorStep
from fast_core.envs.batched import BatchWriter
from fast_core.envs.drawing.drawable import Drawable, Present
from fast_core.envs.episode_info import EpisodeInfo
from fast_core.envs.masks import valid_action
from fast_core.envs.place import Place
from fast_core.envs.records import assign, leaf_of
from fast_core.envs.rows import (
    NONFINITE,
    Observations,
    fitting_rewards,
    rewards_fit,
    store_ends,
    store_rewards,
)
from fast_core.envs.stepping.actions import ActionLog
from fast_core.envs.stepping.batch import ALL_ENVS, FinishedEpisodes, ProgressWord, progress_words
from fast_core.envs.stepping.batch_state import (
    NOT_KEPT,
    OpenEpisode,
    aligned_actions,
    decode_state,
    encode_open,
)
from fast_core.envs.stepping.info_columns import InfoColumns
from fast_core.envs.stepping.no_reward import NoReward, no_reward
from fast_core.envs.stepping.open_episodes import OpenEpisodes
from fast_core.envs.stepping.repeating import not_repeated
from fast_core.envs.stepping.repetition import Repetition
from fast_core.envs.whereabouts import BatchWhereabouts
from fast_core.errors import ConfigError, EnvironmentFailed
from fast_core.seeding import (
    EpisodeSeeds,
    Role,
    children_seeded,
    draw_seed,
    seed_global_generators,
)
from fast_core.spec import Column

_NEVER = 1 << 62
_RESET_TRIES = 8
_SOURCES: dict[str, Callable[..., VectorSource]] = {
    "gymnasium_vector": GymnasiumVectorSource,
    "envpool": EnvPoolSource,
}
Flags = NDArray[np.bool_]


class VectorBatch:
    """`EnvBatch` over a `VectorSource`.

    Where a source can't seed single episodes, their numbers are still counted, and a restored
    batch begins with episodes that were not played yet.

    Attributes:
        spec: Spaces and time limit of the environments.
        quarantined: See `EnvBatch`.
        extra: Likewise.
        goes_on: `VectorStep.goes_on` of the last step.
        unrewarded: Places that the last step cut for ``environment.no_reward_timeout_steps``.
    """

    def __init__(
        self,
        config: EnvironmentConfig,
        *,
        seed: int,
        shard: int,
        envs: int,
        first_env: int = 0,
        role: Role = Role.ENVIRONMENT_EPISODE,
        incarnation: int = 1,
        progress: memoryview | None = None,
        keep_actions: bool = True,
        max_episode_steps: int | None = None,
        number: int = 0,
        draws: Collection[int] = (),
        columns: Sequence[Column] = (),
    ) -> None:
        """See `GymnasiumBatch`; ``max_episode_steps`` is of those without a time limit.

        Raises:
            ConfigError: The library is not installed, or can't step these environments.
            EnvironmentFailed: A constructor raised.
        """
        indices = range(first_env, first_env + envs)
        self._first_env, self._envs = first_env, envs
        self._where = BatchWhereabouts(indices, shard=shard, id=config.id, incarnation=incarnation)
        self._blamed = self._where.blamed
        key = role, shard, first_env, incarnation
        seed_global_generators(seed, *key)
        place_seed = draw_seed(seed, Role.ENVIRONMENT_SPACE, *key, 2)
        # the first one's: they are made at once
        place = Place(number, shard, first_env, place_seed)
        place.tell()
        with self._blamed("while they were made"), children_seeded(seed, *key):
            self._source = _SOURCES[config.backend](
                place.fill(config), envs, draws=any(index in draws for index in indices)
            )
        self._closed = False
        self._no_reward = no_reward(config, envs)
        self._refuse_cutting(config)
        spec = self._source.spec
        self.spec = msgspec.structs.replace(spec, repeatable=self._source.seeded)
        self._fail_nonfinite = config.nonfinite == "fail"
        self._limit = self.spec.max_episode_steps or max_episode_steps or _NEVER
        self._due = _NEVER
        if progress is None:
            progress = memoryview(bytearray(8 * progress_words(envs))).cast("q")
        progress[ProgressWord.ENV] = 0 if envs == 1 else ALL_ENVS
        self._open = OpenEpisodes([EpisodeSeeds(seed, role, shard, i) for i in indices], progress)
        keep = keep_actions and self._source.seeded
        self._log = ActionLog(envs, self.spec.action) if keep else None
        self._finished = FinishedEpisodes([], [], 0)
        self.quarantined: list[int] = []
        self.goes_on: Flags | None = None
        self.unrewarded: list[int] = []
        self._began: NDArray[np.int64] = np.empty(0, np.int64)  # late, in the last step
        self._writer = BatchWriter(spec.tree, self.spec.action_mask)
        self._obs, self._old_obs = (Observations(envs, self.spec) for _ in range(2))
        self._reward = np.zeros(envs)
        self._returns = np.zeros(envs)
        self._attributes: Values = config.attributes
        self._began_with = [config.attributes] * envs
        self._info = EpisodeInfo(config.info)
        self._infos: Mapping[str, object] = {}  # of the last step
        self._columns = InfoColumns(columns, envs)
        self.extra = self._columns.arrays

    def _refuse_cutting(self, config: EnvironmentConfig) -> None:
        if self._no_reward is None or self._source.partial:
            return
        self._source.close()
        raise ConfigError(
            f"environment.no_reward_timeout_steps {config.no_reward_timeout_steps} can't be kept: "
            f"the vectorised form of {config.id!r} resets each environment at its own end alone, "
            "so no episode can be cut. Leave it out, or use environment.backend: gymnasium."
        )

    @property
    def position(self) -> int:
        """See `EnvBatch.position`; where all are stepped at once, the first."""
        return self._first_env

    @property
    def cast(self) -> str:
        """What of the observations was cast, see `assign`."""
        return self._writer.cast

    @property
    def seeded(self) -> bool:
        """Whether every episode is seeded; known after the first reset."""
        return self._source.seeded

    def reset(self, obs: Array) -> None:
        """See `EnvBatch.reset`."""
        self._start([episode + 1 for episode in self._open.episode])
        self._check_masks(None)
        obs[...] = self._obs.array

    def step(
        self,
        action: Array,
        *,
        next_obs: Array,
        reward: NDArray[np.float32],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        final_obs: Array,
    ) -> None:
        """See `EnvBatch.step`."""
        if self._log is not None:
            self._log.append(action, self._open.oldest)
        count = self._open.next_step()
        first = self._step_all(action, terminated, truncated)
        if len(self._began):
            self._begin_late(count)
        forced = np.zeros(self._envs, np.bool_)
        if count >= self._due:
            self._apply_limit(terminated, truncated, forced)
        if self.quarantined:
            self.quarantined = []
        finite = self._obs.finite() and rewards_fit(self._reward)
        if not (finite and self._columns.finite()):
            self._quarantine(terminated, truncated, forced, action)
        if self._no_reward is not None:
            self._cut_unrewarded(self._no_reward, terminated, truncated, forced)
        np.add(self._returns, self._reward, out=self._returns)
        reward[...] = self._reward
        ended = np.flatnonzero(terminated | truncated)
        if len(ended):
            final_obs[ended] = self._obs.array[ended]
            self._finish(ended)
            self._next(ended, forced, first)
        if len(self._began):
            self._leave_out(truncated, final_obs)
        self._check_masks(action)
        next_obs[...] = self._obs.array

    def _step_all(self, action: Array, terminated: Flags, truncated: Flags) -> Array | None:
        """Take a step; ``_obs`` gets the true successors.

        Returns the first observations of episodes that the source began in this step, valid
        where one ended, or None if it began none.
        """
        self._obs, self._old_obs = self._old_obs, self._obs
        with self._blamed("in a step"):
            result = self._source.step(action.copy())
            self._writer.write(result.obs, self._obs.array)
            self._store(result, terminated, truncated, action)
            self._read_columns(result, terminated | truncated)
            first = None
            if result.final is not None:
                first = self._obs.array.copy()
                for place in np.flatnonzero(terminated | truncated).tolist():
                    assign(self._obs.unchecked[place], self._writer.pick(result.final, place))
        self._check_choices(action)
        return first

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
            self._began = np.flatnonzero(result.began)

    def _read_columns(self, result: VectorStep, ended: Flags) -> None:
        if not self.extra:
            return
        stepped = np.ones(self._envs, np.bool_)
        for place in self._began.tolist():
            stepped[place] = False
            self._columns.clear(place)
        if result.final_info is not None:
            self._columns.read_rows(result.final_info, np.flatnonzero(ended))
            stepped &= ~ended
        self._columns.read_rows(result.info, np.flatnonzero(stepped))

    def _begin_late(self, count: int) -> None:
        """Let the episodes that the library began in place of a step begin after it."""
        self._reward[self._began] = 0.0
        for place in self._began.tolist():
            self._open.begin(place, self._open.episode[place], count)
        self._begin_finite(self._began)
        self._find_due()

    def _leave_out(self, truncated: Flags, final_obs: Array) -> None:
        """Quarantine steps that were none: each its own episode, between the ended and the next."""
        truncated[self._began] = True
        final_obs[self._began] = self._old_obs.array[self._began]
        self.quarantined += self._began.tolist()

    def _apply_limit(self, terminated: Flags, truncated: Flags, forced: Flags) -> None:
        """Truncate what has reached the time limit, if the source has not done so."""
        for place in range(self._envs):
            if self._open.length(place) >= self._limit:
                forced[place] = not (terminated[place] or truncated[place])
                truncated[place] = True

    def _cut_unrewarded(
        self, no_reward: NoReward, terminated: Flags, truncated: Flags, forced: Flags
    ) -> None:
        """Truncate what has gone too long without a reward, unless it ended anyway."""
        due = no_reward.due(self._reward)
        self.unrewarded = [p for p in due if not (terminated[p] or truncated[p])]
        for place in self.unrewarded:
            truncated[place] = forced[place] = True
            self._reward[place] += no_reward.penalty

    def _quarantine(
        self, terminated: Flags, truncated: Flags, forced: Flags, action: Array
    ) -> None:
        """Cut episodes with a value that is not finite at their last good observation."""
        finite = fitting_rewards(self._reward) & self._obs.finite_rows()
        finite &= self._columns.finite_rows()
        for place in np.flatnonzero(~finite).tolist():
            self._count_nonfinite(place, action)
            self._obs.array[place] = self._old_obs.array[place]
            self._reward[place], self._returns[place] = 0.0, math.nan
            self._columns.clear(place)
            forced[place] |= not (terminated[place] or truncated[place])
            terminated[place], truncated[place] = False, True
            self.quarantined.append(place)

    def _count_nonfinite(self, place: int, action: Array | None) -> None:
        if self._fail_nonfinite:
            raise self._failure(place, NONFINITE, action)
        self._finished = self._finished._replace(quarantined=self._finished.quarantined + 1)

    def _finish(self, ended: NDArray[np.int64]) -> None:
        for place in ended.tolist():
            self._finished.returns.append(float(self._returns[place]))
            self._finished.lengths.append(self._open.length(place))
        infos = [self._info_of(place) for place in ended.tolist()]
        self._finished = self._finished._replace(infos=(*self._finished.infos, *infos))
        self._returns[ended] = 0.0

    def _info_of(self, place: int) -> dict[str, float]:
        known = place not in self.quarantined
        return self._info.read(self._infos, place) if known else {}

    def _check_choices(self, action: Array | None) -> None:
        outside = self._obs.outside()
        if outside is not None:
            raise self._failure(*outside, action)

    def _check_masks(self, action: Array | None) -> None:
        masks = self._obs.masks
        stuck = masks.stuck() if masks is not None else None
        if masks is not None and stuck is not None:
            begun = self._open.length(stuck) == 0  # by the reset at the end of its episode
            raise self._failure(stuck, masks.cause(stuck), None if begun else action)

    def _start(self, episodes: Sequence[int]) -> None:
        """Begin these episodes in all environments."""
        seeds = [self._open.begin(p, e, self._open.count) for p, e in enumerate(episodes)]
        self._returns.fill(0.0)
        self._began_with = [self._attributes] * self._envs
        if self._no_reward is not None:
            self._no_reward.steps.fill(0)
        with self._blamed("in reset"):
            self._source.set_attributes(self._began_with)
            self._writer.write(self._source.start(seeds), self._obs.array)
        self._begin_finite(np.arange(self._envs))
        self._find_due()

    def _next(self, ended: NDArray[np.int64], forced: Flags, first: Array | None) -> None:
        """Begin the next episodes where one ended; ``_obs`` gets their first observations."""
        seeds = self._count_on(ended)
        if self._source.partial:
            by_hand = forced[ended]
            for places, must in ((ended[~by_hand], False), (ended[by_hand], True)):
                chosen = [seeds[place] for place in places.tolist()]
                self._begin(places, chosen, forced=must)
        else:
            self._take_first(ended, forced, first)
        self._begin_finite(ended)
        self._find_due()

    def _count_on(self, places: NDArray[np.int64]) -> dict[int, int]:
        """Count the next episode of some environments; returns its seeds by place."""
        count, episode = self._open.count, self._open.episode
        if self._no_reward is not None:
            self._no_reward.steps[places] = 0
        for place in places.tolist():
            self._began_with[place] = self._attributes
        return {p: self._open.begin(p, episode[p] + 1, count) for p in places.tolist()}

    def _begin(self, places: NDArray[np.int64], seeds: Sequence[int], *, forced: bool) -> None:
        if len(places):
            with self._blamed("in reset"):
                self._source.set_attributes(self._began_with)
                obs = self._source.begin(places, seeds, forced=forced)
                self._writer.write(obs, self._obs.array, places)

    def _take_first(self, ended: NDArray[np.int64], forced: Flags, first: Array | None) -> None:
        if forced[ended].any():
            place = int(ended[np.argmax(forced[ended])])
            cause = (
                "its episode must be cut (a value is NaN or infinite, or a time limit was passed), "
                "but its library resets it at its own end alone. Use environment.backend: gymnasium"
            )
            raise self._failure(place, cause, None)
        if first is not None:
            self._obs.array[ended] = first[ended]
        elif self._obs.masks is not None:  # the last one stays until the library begins the next
            for place in ended.tolist():
                self._obs.masks.allow_all(place)

    def _begin_finite(self, places: NDArray[np.int64]) -> None:
        """Give up episodes whose first observation is not finite for the next ones."""
        for _ in range(_RESET_TRIES):
            self._check_choices(None)
            if self._obs.finite():
                return
            places = places[~self._obs.finite_rows()[places]]
            if not len(places):  # others, in this step
                return
            for place in places.tolist():
                self._count_nonfinite(place, None)
            if not self._source.partial:
                break
            seeds = self._count_on(places)
            self._begin(places, list(seeds.values()), forced=True)
        tries = _RESET_TRIES if self._source.partial else 1
        cause = f"{tries} episodes in a row began with an observation that is not finite"
        raise self._failure(int(places[0]), cause, None)

    def _find_due(self) -> None:
        self._due = self._open.find_oldest() + self._limit

    def _failure(self, place: int, cause: str, action: Array | None) -> EnvironmentFailed:
        return self._where.places[place].failure(
            self._open.length(place) if action is not None else 0,
            cause,
            self._open.episode[place],
            self._open.seed(place),
            None if action is None else action[place],
        )

    def change(self, attributes: Values, obs: Array) -> list[int]:
        """See `EnvBatch.change`."""
        self._attributes = attributes
        unstepped = [place for place in range(self._envs) if not self._open.length(place)]
        if unstepped:
            places = np.array(unstepped)
            for place in unstepped:
                self._open.episode[place] -= 1
            seeds = self._count_on(places)
            self._begin(places, list(seeds.values()), forced=True)
            self._begin_finite(places)
            self._find_due()
            obs[places] = self._obs.array[places]
        return unstepped

    def present(self, place: int) -> Present:
        """See `EnvBatch.present`."""
        return self._open.present(place, float(self._returns[place]))

    def drawable(self, place: int) -> Drawable:
        """See `EnvBatch.drawable`."""
        drawable = self._source.drawable(place)
        return drawable._replace(close=self.close, leave=self._leave)

    def _leave(self) -> None:
        self._closed = True

    def take_episodes(self) -> FinishedEpisodes:
        """See `EnvBatch.take_episodes`."""
        finished, self._finished = self._finished, FinishedEpisodes([], [], 0)
        return finished

    def state(self) -> bytes:
        """See `EnvBatch.state`."""
        return encode_open(
            self.spec.id,
            self._finished,
            self._open,
            self._log,
            returns=self._returns,
            obs=self._obs.array,
            attributes=self._began_with,
            no_reward=self._no_reward,
        )

    def begin_restore(self, state: bytes) -> list[Repetition]:
        """See `EnvBatch.begin_restore`; they are stepped together."""
        saved = decode_state(state, id=self.spec.id, envs=self._envs)
        self._finished, self._saved = saved.finished, saved.open
        self._lost: dict[int, str] = {}
        self._repetition: Repetition | None = None
        if self._log is None or any(episode.actions is None for episode in saved.open):
            return []
        steps = max(episode.length for episode in saved.open)
        self._repetition = Repetition(steps, partial(self._repeat, saved.open))
        return [self._repetition]

    def end_restore(self, obs: Array) -> dict[int, str]:
        """See `EnvBatch.end_restore`."""
        why = NOT_KEPT if self._repetition is None else self._repetition.why
        if why:
            self._lost = dict.fromkeys(range(self._envs), why)
            self._start([episode.episode + 1 for episode in self._saved])
        elif self._lost:
            places = np.array(sorted(self._lost), np.int64)
            seeds = self._count_on(places)
            self._begin(places, list(seeds.values()), forced=True)
            self._returns[places] = 0.0
            self._begin_finite(places)
            self._find_due()
        obs[...] = self._obs.array
        return {self._first_env + place: text for place, text in self._lost.items()}

    def _repeat(self, saved: Sequence[OpenEpisode]) -> Iterator[None]:
        """Bring all environments back into their open episodes ``saved``, a step each time.

        They are stepped together, so those with fewer steps to repeat begin later; what they do
        before is of no account, and neither is what one does that did something else than before.
        """
        rows, starts = aligned_actions(saved, self.spec.action)
        cast("ActionLog", self._log).clear()
        self._lost.clear()
        self._returns.fill(0.0)
        self._open.count = len(rows)
        seeds = []
        for place, episode in enumerate(saved):
            seed = self._open.begin(place, episode.episode, starts[place])
            if seed != episode.seed:
                self._lose(place, f"this run resets that episode with {seed}")
            seeds.append(seed)
        self._began_with = [episode.attributes for episode in saved]
        with self._blamed("in reset"):
            self._source.set_attributes(self._began_with)
            self._writer.write(self._source.start(seeds), self._obs.array)
        for t, row in enumerate(rows):
            self._begin_at(t, starts, seeds)
            self._allow_waiting(t, row, starts)
            self._repeat_step(t, row, starts, seeds)
            yield
        self._begin_at(len(rows), starts, seeds)
        for place, episode in enumerate(saved):
            self._check_same(place, episode)
            if self._no_reward is not None:
                self._no_reward.steps[place] = episode.unrewarded
        self._find_due()

    def _lose(self, place: int, what: str) -> None:
        """Give up an episode; the first cause counts."""
        error = not_repeated(self._where.places[place], self._saved[place], what)
        self._lost.setdefault(place, str(error))

    def _begin_at(self, t: int, starts: Sequence[int], seeds: Sequence[int]) -> None:
        places = np.array([p for p, start in enumerate(starts) if start == t > 0], np.int64)
        self._begin(places, [seeds[place] for place in places.tolist()], forced=True)
        self._returns[places] = 0.0

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
        self._step_all(action, terminated, truncated)
        cast("ActionLog", self._log).append(action, 0)
        self._returns += self._reward
        ended = np.flatnonzero(terminated | truncated)
        for place in ended.tolist():
            if starts[place] <= t:
                self._lose(place, f"the episode ended at step {t + 1 - starts[place]}")
        self._begin(ended, [seeds[place] for place in ended.tolist()], forced=False)

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
                self._source.close()
