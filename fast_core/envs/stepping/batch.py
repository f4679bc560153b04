"""What an env node steps its environments by, and the rules of their episodes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Required, TypedDict

import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm import Array
from fast_core.algorithm.spec import Column, EnvironmentSpec
from fast_core.config import EnvironmentConfig, Values
from fast_core.envs.drawing.drawable import Drawable, Present
from fast_core.envs.episode_info import EpisodeInfo
from fast_core.envs.rows import NONFINITE, Observations, fitting_rewards, rewards_fit
from fast_core.envs.stepping.actions import ActionLog
from fast_core.envs.stepping.batch_state import (
    NOT_KEPT,
    FinishedEpisodes,
    OpenEpisode,
    aligned_actions,
    decode_state,
    encode_open,
)
from fast_core.envs.stepping.info_columns import InfoColumns
from fast_core.envs.stepping.no_reward import NoReward, no_reward
from fast_core.envs.stepping.open_episodes import OpenEpisodes
from fast_core.envs.stepping.repeating import Repetition
from fast_core.envs.whereabouts import Whereabouts
from fast_core.errors import EnvironmentFailed
from fast_core.system.progress import progress_words
from fast_core.system.seeding import EpisodeSeeds, Role

Flags = NDArray[np.bool_]

_NEVER = 1 << 62


class Batched(TypedDict, total=False):
    """Which environments of a run are stepped together, and what is kept of them.

    Attributes:
        seed: Seed of the run.
        shard: Shard they belong to.
        envs: Their number, ``B``.
        first_env: Where they begin in the shard; 0 by default.
        role: Which stream seeds their episodes; by default that of training.
        incarnation: How often the shard was given out, 1 by default; seeds the constructors only.
        progress: `progress_words` 64-bit words to keep the position in.
        keep_actions: Keep the actions of open episodes, for an exact restore, which is the default.
            Without, a restored batch begins the next episodes.
        number: That of the first environment, see `fast_core.envs.place.Place`.
        draws: Which of the shard are made to draw themselves.
        columns: What the info of each step must have, for ``extra``.
    """

    seed: Required[int]
    shard: Required[int]
    envs: Required[int]
    first_env: int
    role: Role
    incarnation: int
    progress: memoryview | None
    keep_actions: bool
    number: int
    draws: Collection[int]
    columns: Sequence[Column]


class EnvBatch(ABC):
    """``B`` environments of one shard, stepped together, each reset where its episode ends.

    Episode ``k`` of an environment is reset with the seed that belongs to (run, role, shard,
    environment, ``k``) and with the configured reset options. Actions are what the
    environments' action space contains, in its dtype; observations arrive in the dtype that the
    observation space declares. Rows are those of `EnvironmentSpec.row`: single frames where frames
    are stacked, records with a field for each leaf where the space is composite. Where the
    specification names an action mask, every row that an action follows allows at least one in
    each dimension.

    An observation or reward that is not finite (as float32, for a reward) either ends the run,
    or is quarantined: the step counts as a truncation at the last good observation with reward
    0, and the environment is reset. What the step really led to is not known, so nothing may be
    learnt from it: `quarantined` tells these truncations from true ones. The same stands for a
    step that was none, since a library began an episode in its place: nothing is counted then.

    The batch owns what it was given: arrays passed to it are copied or written, and not
    kept, and environments may reuse theirs. After an exception only `close` is defined.

    What steps and resets the environments is up to a subclass; the rules of an episode, which end
    it, count it and bring it back, stand here and work on the arrays of a step in place.

    Attributes:
        spec: Spaces and time limit of the environments.
        quarantined: Places of those whose last step is to be left out; hardly ever any.
        unrewarded: Places that the last step cut for ``environment.no_reward_timeout_steps``.
        extra: What the declared columns have of the last step, ``[B, ...]`` by name. Each
            environment's info must have them; one that is not finite counts as an observation
            that is not. Zeros where the step is quarantined.
    """

    _tries = 8  # resets of an environment whose first observation is not finite

    def __init__(
        self,
        config: EnvironmentConfig,
        spec: EnvironmentSpec,
        where: Sequence[Whereabouts],
        limit: int | None,
        which: Batched,
    ) -> None:
        """Nothing is begun yet.

        Args:
            config: Which environment.
            spec: What its instances are like.
            where: The place of each, for errors.
            limit: Steps after which an episode is truncated here, None where nothing need be.
            which: Which environments of the run they are.
        """
        envs, shard, seed = which["envs"], which["shard"], which["seed"]
        role = which.get("role", Role.ENVIRONMENT_EPISODE)
        self.spec, self._envs, self._where = spec, envs, where
        self._first_env = first_env = which.get("first_env", 0)
        seeds = [EpisodeSeeds(seed, role, shard, first_env + place) for place in range(envs)]
        self._fail_nonfinite = config.nonfinite == "fail"
        self._limit, self._due = limit or _NEVER, _NEVER
        progress = which.get("progress")
        if progress is None:
            progress = memoryview(bytearray(8 * progress_words(envs))).cast("q")
        self._open = OpenEpisodes(seeds, progress)
        self._log = ActionLog(envs, spec.action) if which.get("keep_actions", True) else None
        self._finished = FinishedEpisodes([], [], 0)
        self.quarantined: list[int] = []
        self.unrewarded: list[int] = []
        self._no_reward = no_reward(config, envs)
        self._forced: set[int] = set()  # episodes that end without their environment's knowledge
        self._late: list[int] = []  # episodes that a library began in place of the last step
        # after the last step and before it: a quarantined step needs both
        self._obs, self._old_obs = Observations(envs, spec), Observations(envs, spec)
        self._reward, self._returns = np.zeros((2, envs))
        self._info = EpisodeInfo(config.info)
        self._columns = InfoColumns(which.get("columns", ()), envs)
        self.extra = self._columns.arrays
        self._attributes: Values = config.attributes
        self._began_with = [config.attributes] * envs

    # --- what a subclass does ------------------------------------------------------------------

    @abstractmethod
    def _advance(self, action: Array, terminated: Flags, truncated: Flags) -> list[int]:
        """Take a step of every environment.

        ``_obs``, which holds older observations, gets the true successors, ``_reward`` the
        rewards, the flags, all of which are to be written, how episodes ended, and ``_columns``
        what the infos have.

        Returns:
            Places of those that ended, in rising order.
        """

    @abstractmethod
    def _reset(self, places: list[int]) -> None:
        """`_count_on` for each of these and begin the episode; ``_obs`` gets what it shows."""

    def _start(self, places: list[int]) -> None:
        """The same for all at once, which may never have been reset."""
        self._reset(places)

    @abstractmethod
    def _info_of(self, place: int) -> dict[str, float]:
        """What ``_info`` reads of the info of the last step, which ended an episode."""

    @abstractmethod
    def _repetitions(
        self, saved: Sequence[OpenEpisode], actions: Array, starts: list[int]
    ) -> list[tuple[Repetition, Sequence[int]]]:
        """How open episodes are stepped again, and the places that each is for.

        Args:
            saved: The open episode of each environment.
            actions: ``[n, B, ...]`` up to now, as `aligned_actions` gives them.
            starts: Where those of each begin.
        """

    def _episode_starts(self) -> Sequence[bytes] | None:
        """What the reset of each needs beside its seed, if anything does."""
        return None

    @property
    @abstractmethod
    def position(self) -> int:
        """Environment that is being reset or stepped, or was last; counted within the shard.

        Where all are stepped at once, the first.
        """

    @abstractmethod
    def drawable(self, place: int) -> Drawable:
        """What draws the environment at ``place``, if it is one of those made to draw."""

    @abstractmethod
    def close(self) -> None:
        """Close every environment once, also those after one whose close raises."""

    # --- stepping ------------------------------------------------------------------------------

    def reset(self, obs: Array) -> None:
        """Begin the next episode of every environment; ``obs`` ``[B, ...]`` is written.

        Raises:
            EnvironmentFailed: An environment raised or gave what its spaces do not declare.
        """
        self._begin(list(range(self._envs)), anew=True)
        self._check_masks(None)
        obs[...] = self._obs.array

    def step(
        self,
        action: Array,
        *,
        next_obs: Array,
        reward: NDArray[np.float32],
        terminated: Flags,
        truncated: Flags,
        final_obs: Array,
    ) -> None:
        """Step every environment once with ``action`` ``[B, ...]``; the rest is written.

        Where an episode ends, at least one of ``terminated`` and ``truncated`` is set, both if
        both are so; ``final_obs[b]`` is the true successor and ``next_obs[b]`` the observation
        of the reset that follows within this call. Elsewhere ``final_obs[b]`` is left alone and
        ``next_obs[b]`` is the successor. ``reward``, ``terminated`` and ``truncated`` are ``[B]``.

        Raises:
            EnvironmentFailed: An environment raised or gave what its spaces do not declare.
        """
        if self._log is not None:
            self._log.append(action, self._open.oldest)
        count = self._open.next_step()
        if self.quarantined:
            self.quarantined = []
        self._obs, self._old_obs = self._old_obs, self._obs
        ended = self._advance(action, terminated, truncated)
        if count >= self._due:
            self._apply_limit(terminated, truncated)
        finite = self._obs.finite() and rewards_fit(self._reward)
        if not finite or (self.extra and not self._columns.finite()):
            self._quarantine(terminated, truncated, action)
        if self._no_reward is not None:
            self._cut_unrewarded(self._no_reward, terminated, truncated)
        np.add(self._returns, self._reward, out=self._returns)
        reward[...] = self._reward
        if self._forced:
            ended = np.flatnonzero(terminated | truncated).tolist()
        if ended:
            self._next(ended, final_obs)
        if self._obs.masks is not None:
            self._check_masks(action)
        next_obs[...] = self._obs.array
        if self._late:
            self._leave_out(truncated, final_obs)

    def _cut(self, place: int, terminated: Flags, truncated: Flags) -> None:
        """Truncate an episode, whatever its environment said."""
        if not (terminated[place] or truncated[place]):
            self._forced.add(place)
        truncated[place] = True

    def _apply_limit(self, terminated: Flags, truncated: Flags) -> None:
        """Truncate what has reached the time limit, as Gymnasium's `TimeLimit` does."""
        for place in range(self._envs):
            if self._open.length(place) >= self._limit:
                self._cut(place, terminated, truncated)

    def _cut_unrewarded(self, no_reward: NoReward, terminated: Flags, truncated: Flags) -> None:
        """Truncate what has gone too long without a reward, unless it ended anyway."""
        due = no_reward.due(self._reward)
        self.unrewarded = [p for p in due if not (terminated[p] or truncated[p])]
        for place in self.unrewarded:
            self._cut(place, terminated, truncated)
            self._reward[place] += no_reward.penalty

    def _quarantine(self, terminated: Flags, truncated: Flags, action: Array) -> None:
        """Cut episodes with a value that is not finite at their last good observation."""
        finite = fitting_rewards(self._reward) & self._obs.finite_rows()
        finite &= self._columns.finite_rows()
        for place in np.flatnonzero(~finite).tolist():
            self._count_nonfinite(place, action)
            self._obs.array[place] = self._old_obs.array[place]
            self._reward[place], self._returns[place] = 0.0, math.nan
            self._columns.clear(place)
            self._cut(place, terminated, truncated)
            terminated[place] = False
            self.quarantined.append(place)

    def _count_nonfinite(self, place: int, action: Array | None) -> None:
        if self._fail_nonfinite:
            raise self._failure(place, NONFINITE, action)
        self._finished = self._finished._replace(quarantined=self._finished.quarantined + 1)

    def _leave_out(self, truncated: Flags, final_obs: Array) -> None:
        """Quarantine steps that were none: each its own episode, between the ended and the next."""
        truncated[self._late] = True
        final_obs[self._late] = self._old_obs.array[self._late]
        self.quarantined += self._late

    def _next(self, places: list[int], final_obs: Array) -> None:
        """Count the episodes that ended, and begin those after them."""
        infos = []
        for place in places:
            final_obs[place] = self._obs.array[place]
            self._finished.returns.append(float(self._returns[place]))
            self._finished.lengths.append(self._open.length(place))
            infos.append({} if place in self.quarantined else self._info_of(place))
        self._finished = self._finished._replace(infos=(*self._finished.infos, *infos))
        self._begin(places)

    # --- beginning -----------------------------------------------------------------------------

    def _begin(self, places: list[int], *, anew: bool = False) -> None:
        """Begin the next episode of some environments, or of all ``anew``."""
        (self._start if anew else self._reset)(places)
        self._settle(places)
        self._forced.clear()

    def _settle(self, places: list[int]) -> None:
        """Give up episodes whose first observation is not finite for the next ones."""
        for tried in range(1, self._tries + 1):
            if self._obs.finite():
                break
            places = [place for place in places if not self._obs.finite_row(place)]
            for place in places:
                self._count_nonfinite(place, None)
            if not places:  # others, in this step
                break
            if tried == self._tries:
                cause = f"{tried} episodes in a row began with an observation that is not finite"
                raise self._failure(places[0], cause, None)
            self._forced.update(places)
            self._reset(places)
        self._find_due()

    def _count_on(self, place: int) -> int:
        """Count the next episode of an environment; returns its seed."""
        self._returns[place] = 0.0
        self._began_with[place] = self._attributes
        if self._no_reward is not None:
            self._no_reward.steps[place] = 0
        return self._open.begin(place, self._open.episode[place] + 1, self._open.count)

    def _find_due(self) -> None:
        self._due = self._open.find_oldest() + self._limit

    def change(self, attributes: Values, obs: Array) -> list[int]:
        """Begin episodes with other ``environment.attributes`` from now on.

        Those that have no step yet are begun again, with their own seeds, and their rows of
        ``obs`` are written. The others keep what they began with until they end.

        Returns:
            Places of those that were begun again.

        Raises:
            EnvironmentFailed: An environment raised.
        """
        self._attributes = attributes
        unstepped = [place for place in range(self._envs) if not self._open.length(place)]
        self._begin_after(unstepped, [self._open.episode[place] - 1 for place in unstepped])
        for place in unstepped:
            obs[place] = self._obs.array[place]
        return unstepped

    def _begin_after(self, places: list[int], episodes: list[int], *, anew: bool = False) -> None:
        """Begin the episodes after these, in environments that do not know that theirs ended."""
        for place, episode in zip(places, episodes, strict=True):
            self._open.episode[place] = episode
        if places:
            self._forced.update(places)
            self._begin(places, anew=anew)
            self._check_masks(None)

    # --- errors and figures --------------------------------------------------------------------

    def _check_masks(self, action: Array | None) -> None:
        """Check that each environment allows an action, at its first observation too."""
        masks = self._obs.masks
        stuck = masks.stuck() if masks is not None else None
        if masks is not None and stuck is not None:
            begun = self._open.length(stuck) == 0  # by the reset at the end of its episode
            raise self._failure(stuck, masks.cause(stuck), None if begun else action)

    def _failure(
        self, place: int, cause: str | BaseException, action: Array | None
    ) -> EnvironmentFailed:
        return self._where[place].failure(
            self._open.length(place) if action is not None else 0,
            cause,
            self._open.episode[place],
            self._open.seed(place),
            None if action is None else action[place],
        )

    def present(self, place: int) -> Present:
        """Where the environment at ``place`` is, between two steps."""
        return self._open.present(place, float(self._returns[place]))

    def take_episodes(self) -> FinishedEpisodes:
        """Return the episodes that ended since the last call, and forget them."""
        finished, self._finished = self._finished, FinishedEpisodes([], [], 0)
        return finished

    # --- going on from a checkpoint ------------------------------------------------------------

    def state(self) -> bytes:
        """Everything that `begin_restore` needs to continue exactly, open episodes included."""
        return encode_open(
            self.spec.id,
            self._finished,
            self._open,
            self._log,
            returns=self._returns,
            obs=self._obs.array,
            starts=self._episode_starts(),
            attributes=self._began_with,
            no_reward=self._no_reward,
        )

    def restore(self, state: bytes, obs: Array) -> dict[int, str]:
        """Continue from `state`, each repetition after the other.

        See `begin_restore` and `end_restore`.
        """
        for repetition in self.begin_restore(state):
            repetition.take()
        return self.end_restore(obs)

    def begin_restore(self, state: bytes) -> list[Repetition]:
        """Begin to continue from `state`: returns how open episodes are stepped again.

        Each is to be taken, in any thread, before `end_restore`.

        Raises:
            CheckpointError: ``state`` is damaged or belongs to another batch.
        """
        saved = decode_state(state, id=self.spec.id, envs=self._envs)
        self._finished, self._saved = saved.finished, saved.open
        actions, starts = aligned_actions(saved.open, self.spec.action)
        self._open.count = len(actions)
        self._lost: dict[int, str] = {}
        self._repeated: list[tuple[Repetition, Sequence[int]]] = []
        if self._log is not None:
            self._log.clear()
            for row in actions:
                self._log.append(row, 0)
            self._repeated = self._repetitions(saved.open, actions, starts)
        return [repetition for repetition, _ in self._repeated]

    def _resume(self, place: int, saved: OpenEpisode) -> None:
        """Count on where ``saved`` was left."""
        self._returns[place], self._began_with[place] = saved.total, saved.attributes
        if self._no_reward is not None:
            self._no_reward.steps[place] = saved.unrewarded

    def end_restore(self, obs: Array) -> dict[int, str]:
        """Continue; the current observations are written to ``obs``.

        An environment whose episode was not kept, or that did not come back to the same
        observation bit for bit, begins the next episode.

        Returns:
            Why, for each of these, counted within the shard.
        """
        why = dict.fromkeys(range(self._envs), NOT_KEPT)
        for repetition, places in self._repeated:
            why |= {place: repetition.why or self._lost.get(place, "") for place in places}
        lost = [place for place in range(self._envs) if why[place]]
        episodes = [self._saved[place].episode for place in lost]
        self._find_due()
        self._begin_after(lost, episodes, anew=len(lost) == self._envs)
        obs[...] = self._obs.array
        return {self._first_env + place: why[place] for place in lost}
