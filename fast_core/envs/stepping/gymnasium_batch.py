"""Gymnasium environments stepped one after the other in this process.

Every environment step passes through `GymnasiumBatch._step_each`, so its loop does only what
must be done between two environments; the rest is done once for the batch.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm import Array
from fast_core.config import EnvironmentConfig, Values
from fast_core.envs.drawing.drawable import Drawable, Present
from fast_core.envs.episode_info import EpisodeInfo
from fast_core.envs.instance import close_all, make_instances
from fast_core.envs.masks import Masks
from fast_core.envs.records import assign, mismatch
from fast_core.envs.rows import (
    NONFINITE,
    as_ends,
    fitting_rewards,
    rewards_fit,
    store_rewards,
)
from fast_core.envs.stepping.actions import ActionLog
from fast_core.envs.stepping.batch import FinishedEpisodes, ProgressWord, progress_words
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
from fast_core.envs.stepping.repeating import not_repeated, repeat_episode
from fast_core.envs.stepping.repetition import Repetition
from fast_core.errors import EnvironmentFailed
from fast_core.seeding import EpisodeSeeds, Role
from fast_core.spec import Column

_NEVER = 1 << 62
_RESET_TRIES = 8
_ENV = int(ProgressWord.ENV)

Ends = dict[int, tuple[bool, bool]]


class GymnasiumBatch:
    """`EnvBatch` over environments made by `gymnasium.make`.

    Attributes:
        spec: Spaces and time limit of the environments.
        quarantined: See `EnvBatch`.
        extra: Likewise.
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
        number: int = 0,
        draws: Collection[int] = (),
        columns: Sequence[Column] = (),
    ) -> None:
        """Make environments ``first_env`` to ``first_env + envs - 1`` of ``shard``.

        Args:
            config: Which environment.
            seed: Seed of the run.
            shard: Shard they belong to.
            envs: Their number, ``B``.
            first_env: Where they begin in the shard.
            role: Which stream seeds their episodes.
            incarnation: How often the shard was given out; seeds the constructors only.
            progress: `progress_words` 64-bit words to keep the position in, or None.
            keep_actions: Keep the actions of open episodes, for an exact restore. Without,
                a restored batch begins the next episodes.
            number: That of the first environment, see `fast_core.envs.place.Place`.
            draws: Which of the shard are made to draw themselves.
            columns: What the info of each step must have, for `EnvBatch.extra`.
        """
        indices = range(first_env, first_env + envs)
        self._instances = make_instances(
            config,
            seed=seed,
            role=role,
            shard=shard,
            indices=indices,
            incarnation=incarnation,
            number=number,
            draws=draws,
        )
        self.spec = self._instances[0].spec
        self._first_env = first_env
        self._attributes: Values = config.attributes
        self._fail_nonfinite = config.nonfinite == "fail"
        self._discrete = self.spec.action.kind == "discrete"
        self._limit = self._instances[0].limit or _NEVER
        self._due = _NEVER
        if progress is None:
            progress = memoryview(bytearray(8 * progress_words(envs))).cast("q")
        seeds = [EpisodeSeeds(seed, role, shard, index) for index in indices]
        self._open = OpenEpisodes(seeds, progress)
        self._log = ActionLog(envs, self.spec.action) if keep_actions else None
        self._finished = FinishedEpisodes([], [], 0)
        self.quarantined: list[int] = []
        self._steps = [instance.step for instance in self._instances]
        # after the last step and before it: a quarantined step needs both
        self._obs = self._instances[0].observations(envs)
        self._old_obs = self._instances[0].observations(envs)
        self._given: list[object] = [0.0] * envs
        self._info = EpisodeInfo(config.info)
        self._infos: list[object] = [None] * envs  # of the last step
        self._columns = InfoColumns(columns, envs)
        self.extra = self._columns.arrays
        self._no_reward = no_reward(config, envs)
        self._reward = np.zeros(envs)
        self._returns = np.zeros(envs)

    @property
    def position(self) -> int:
        """See `EnvBatch.position`."""
        return self._first_env + self._open.words[_ENV]

    def reset(self, obs: Array) -> None:
        """See `EnvBatch.reset`."""
        for place in range(len(self._steps)):
            self._begin(place)
        self._find_due()
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
        ended = self._step_each(action)
        if count >= self._due:
            self._apply_limit(ended)
        if self.quarantined:
            self.quarantined = []
        finite = self._obs.finite() and rewards_fit(self._reward)
        if self.extra:
            finite = self._read_columns(action) and finite
        if not finite:
            self._quarantine(ended, action)
        if self._no_reward is not None:
            self._cut_unrewarded(self._no_reward, ended)
        if self._obs.masks is not None:
            self._check_masks(self._obs.masks, ended, action)
        np.add(self._returns, self._reward, out=self._returns)
        reward[...] = self._reward
        terminated.fill(False)
        truncated.fill(False)
        if ended:
            infos = []
            for place in sorted(ended):
                terminated[place], truncated[place] = ended[place]
                final_obs[place] = self._obs.array[place]
                self._finished.returns.append(float(self._returns[place]))
                self._finished.lengths.append(self._open.length(place))
                known = place not in self.quarantined
                infos.append(self._info.read(self._infos[place]) if known else {})
                self._begin(place)
            self._finished = self._finished._replace(infos=(*self._finished.infos, *infos))
            self._find_due()
        next_obs[...] = self._obs.array

    def _step_each(self, action: Array) -> Ends:
        """Step every environment; returns what they said of their ends."""
        self._obs, self._old_obs = self._old_obs, self._obs
        ended: Ends = {}
        words = self._open.words
        given, infos = self._given, self._infos
        place = 0
        try:
            for place, (step, taken, row) in enumerate(
                zip(self._steps, self._for_envs(action), self._obs.unchecked, strict=True)
            ):
                words[_ENV] = place
                obs, given[place], terminated, truncated, infos[place] = step(taken)
                try:
                    row[:] = obs
                except (ValueError, TypeError):
                    self._assign(place, obs, action)
                if terminated is not False or truncated is not False:
                    ends = as_ends(terminated, truncated)
                    if True in ends:
                        ended[place] = ends
        except EnvironmentFailed:
            raise
        except BaseException as error:  # an environment may raise anything
            raise self._failure(place, error, action) from error
        wrong = store_rewards(given, self._reward)
        if wrong is not None:
            cause = f"the reward must be one number; got {given[wrong]!r}"
            raise self._failure(wrong, cause, action)
        outside = self._obs.outside()
        if outside is not None:
            raise self._failure(*outside, action)
        return ended

    def _read_columns(self, action: Array) -> bool:
        """Take the declared columns from the infos; whether all they hold is finite."""
        for place, info in enumerate(self._infos):
            try:
                self._columns.read(info, place)
            except ValueError as error:
                raise self._failure(place, str(error), action) from error
        return self._columns.finite()

    def _assign(self, place: int, obs: object, action: Array) -> None:
        """What the quickest way could not: floats of another width, or an error that says why."""
        try:
            assign(self._obs.rows[place], obs)
        except (ValueError, TypeError) as error:
            cause = mismatch(obs, self.spec.row, error)
            raise self._failure(place, cause, action) from error

    def _for_envs(self, action: Array) -> Iterable[object]:
        """Actions as environments take them; none shares memory with ``action`` ``[n, ...]``.

        Discrete ones are NumPy integers, as the space samples them: `gymnasium.spaces.Discrete`
        checks those in 1 us, and in 2 us a Python integer, for which it looks up the limits of
        its dtype.
        """
        return list(action) if self._discrete else action.copy()

    def _apply_limit(self, ended: Ends) -> None:
        """Truncate what has reached the time limit, as Gymnasium's `TimeLimit` does."""
        for place in range(len(self._steps)):
            if self._open.length(place) >= self._limit:
                terminated, _ = ended.get(place, (False, False))
                ended[place] = terminated, True

    def _cut_unrewarded(self, no_reward: NoReward, ended: Ends) -> None:
        """Truncate what has gone too long without a reward, unless it ended anyway."""
        for place in no_reward.due(self._reward):
            if place not in ended:
                ended[place] = False, True
                self._reward[place] += no_reward.penalty

    def _quarantine(self, ended: Ends, action: Array) -> None:
        """Cut episodes with a value that is not finite at their last good observation."""
        finite = fitting_rewards(self._reward) & self._obs.finite_rows()
        finite &= self._columns.finite_rows()
        for place in np.flatnonzero(~finite).tolist():
            self._count_nonfinite(place, action)
            self._obs.array[place] = self._old_obs.array[place]
            self._reward[place], self._returns[place] = 0.0, math.nan
            self._columns.clear(place)
            ended[place] = False, True
            self.quarantined.append(place)

    def _count_nonfinite(self, place: int, action: Array | None) -> None:
        if self._fail_nonfinite:
            raise self._failure(place, NONFINITE, action)
        self._finished = self._finished._replace(quarantined=self._finished.quarantined + 1)

    def _check_masks(self, masks: Masks, ended: Ends, action: Array) -> None:
        stuck = masks.stuck(ended)
        if stuck is not None:
            raise self._failure(stuck, masks.cause(stuck), action)

    def _begin(self, place: int) -> None:
        """Reset one environment into its next episode; its row becomes the observation.

        An episode whose first observation is not finite is given up for the next one.
        """
        self._open.words[_ENV] = place
        self._returns[place] = 0.0
        if self._no_reward is not None:
            self._no_reward.steps[place] = 0
        self._instances[place].attributes = self._attributes
        for _ in range(_RESET_TRIES):
            episode = self._open.episode[place] + 1
            seed = self._open.begin(place, episode, self._open.count)
            self._instances[place].reset(self._obs.rows[place], episode=episode, seed=seed)
            if self._obs.finite_row(place):
                break
            self._count_nonfinite(place, None)
        else:
            cause = f"{_RESET_TRIES} episodes in a row began with an observation that is not finite"
            raise self._failure(place, cause, None)
        if self._obs.masks is not None and not self._obs.masks.open(place):
            raise self._failure(place, self._obs.masks.cause(place), None)

    def _find_due(self) -> None:
        self._due = self._open.find_oldest() + self._limit

    def _failure(
        self, place: int, cause: str | BaseException, action: Array | None
    ) -> EnvironmentFailed:
        return self._instances[place].failure(
            self._open.length(place) if action is not None else 0,
            cause,
            self._open.episode[place],
            self._open.seed(place),
            None if action is None else action[place],
        )

    def change(self, attributes: Values, obs: Array) -> list[int]:
        """See `EnvBatch.change`."""
        self._attributes = attributes
        unstepped = [place for place in range(len(self._steps)) if not self._open.length(place)]
        for place in unstepped:
            self._open.episode[place] -= 1
            self._begin(place)
            obs[place] = self._obs.array[place]
        self._find_due()
        return unstepped

    def present(self, place: int) -> Present:
        """See `EnvBatch.present`."""
        return self._open.present(place, float(self._returns[place]))

    def drawable(self, place: int) -> Drawable:
        """See `EnvBatch.drawable`."""
        return self._instances[place].drawable

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
            starts=[instance.episode_start for instance in self._instances],
            attributes=[instance.attributes for instance in self._instances],
            no_reward=self._no_reward,
        )

    def begin_restore(self, state: bytes) -> list[Repetition]:
        """See `EnvBatch.begin_restore`."""
        saved = decode_state(state, id=self.spec.id, envs=len(self._steps))
        self._finished, self._saved = saved.finished, saved.open
        self._repetitions: dict[int, Repetition] = {}
        actions, starts = aligned_actions(saved.open, self.spec.action)
        self._open.count = len(actions)
        if self._log is None:
            return []
        self._log.clear()
        for row in actions:
            self._log.append(row, 0)
        for place, episode in enumerate(saved.open):
            if episode.actions is not None:
                taken = actions[starts[place] :, place]
                attempt = partial(self._repeat, place, episode, taken)
                self._repetitions[place] = Repetition(episode.length, attempt)
        return list(self._repetitions.values())

    def end_restore(self, obs: Array) -> dict[int, str]:
        """See `EnvBatch.end_restore`."""
        lost = {}
        for place, episode in enumerate(self._saved):
            repetition = self._repetitions.get(place)
            why = NOT_KEPT if repetition is None else repetition.why
            if why:
                lost[self._first_env + place] = why
                self._open.episode[place] = episode.episode
                self._begin(place)
        self._find_due()
        obs[...] = self._obs.array
        return lost

    def _repeat(self, place: int, saved: OpenEpisode, actions: Array) -> Iterator[None]:
        """Bring one environment back into the open episode ``saved``, a step each time."""
        self._open.words[_ENV] = place
        start = self._open.count - saved.length
        instance = self._instances[place]
        if self._open.begin(place, saved.episode, start) != saved.seed:
            what = f"this run resets that episode with {self._open.seed(place)}"
            raise not_repeated(instance, saved, what)
        yield from repeat_episode(instance, self._obs.rows[place], saved, self._for_envs(actions))
        if self._obs.array[place].tobytes() != saved.obs:
            raise not_repeated(instance, saved, "the observation differs from the saved one")
        self._returns[place] = saved.total
        if self._no_reward is not None:
            self._no_reward.steps[place] = saved.unrewarded

    def close(self) -> None:
        """See `EnvBatch.close`."""
        close_all(self._instances)
